// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <set>

#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/views/individual_view.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

std::string line_of(const LineageTree& tree, IndividualId id, IndividualId parent, const std::string& branch,
                    const std::set<IndividualId>& promoted, Standings& standings) {
  const IndividualRow& row = tree.rows.at(id);
  const std::string value =
      row.state == IndividualState::measured
          ? fmt::format("{:.4g}{}", standings.fitness(id), row.expelled ? " (failed confirmation)" : "")
      : row.state == IndividualState::proposed ? "pending"
                                               : "rejected at " + plain_line(row.stage, 60);
  const std::string change =
      parent == 0 ? row.individual.descent.note : change_of(tree.rows.at(parent).individual, row.individual);
  const DuelResult* const duel = standings.duel(id);
  std::string others;
  if (const auto settings = tree.settings.find(id); settings != tree.settings.end()) {
    others = fmt::format("  (+ {} setting{}", settings->second.count, settings->second.count == 1 ? "" : "s");
    if (settings->second.best != 0)
      others += fmt::format(", the best #{} {:.4g}", settings->second.best, settings->second.fitness);
    others += ")";
  }
  return fmt::format("{}#{} {}{}{}  {}{}{}", branch, id, value, promoted.contains(id) ? " *" : "",
                     duel ? ", " + duel_text(*duel) : "", plain_line(origin_name(row.individual.descent), 60),
                     change.empty() ? "" : ": " + plain_line(change, 400), others);
}

// Not recursive: a chain may be as long as the run.
void print(const LineageTree& tree, IndividualId root, const std::set<IndividualId>& promoted,
           Standings& standings, const Output& output) {
  const std::size_t columns = columns_of(output.text());
  const std::size_t widest = columns == std::string::npos ? 240 : columns / 3;  // indented no further
  struct Due {
    IndividualId id, parent;
    std::string indent;
    bool last;
  };
  std::vector<Due> due{{root, 0, "", true}};
  while (!due.empty()) {
    const Due now = std::move(due.back());
    due.pop_back();
    const bool top = now.parent == 0;
    const std::string branch = now.indent + (top ? "" : now.last ? "`- " : "|- ");
    const std::string below = now.indent + (top ? "" : now.last ? "   " : "|  ") + "    ";
    output.line(line_of(tree, now.id, now.parent, branch, promoted, standings), below);
    const auto found = tree.children.find(now.id);
    if (found == tree.children.end()) continue;
    const std::string indent = now.indent + (top || now.indent.size() >= widest ? ""
                                             : now.last                         ? "   "
                                                                                : "|  ");
    bool last = true;
    for (auto child = found->second.rbegin(); child != found->second.rend(); ++child) {
      due.push_back({*child, now.id, indent, last});
      last = false;
    }
  }
}

}  // namespace

int lineage_command(const Arguments& arguments) {
  std::string run, text;
  bool as_json = false;
  Options options(
      "lineage",
      "Shows which kernels were derived from which: the tree of all sources of a run, or the ancestors and "
      "children of one individual.",
      "cultivar lineage runs/quickstart best");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.optional_argument("ID", text,
                            "an individual's number, a prefix of its variant id, `best` or `seed`");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const Record record = open_run(find_installation(), run);
  Standings standings(record);
  const std::set<IndividualId> promoted = promoted_in(record);
  const LineageTree tree = text.empty() ? whole_lineage(record, promoted, standings)
                                        : lineage_of(record, find_individual(record, text));
  if (as_json) {
    output.facts(lineage_facts(tree, promoted, standings));
    return 0;
  }
  if (text.empty() && promoted.empty()) {
    output.line("No kernel has become the best of this run yet.");
    record.each_individual([&](const IndividualRow& row) {
      const auto confirmation = row.expelled ? record.confirmation(row.individual.id) : std::nullopt;
      if (confirmation)
        output.line(fmt::format("#{}: {}", row.individual.id, words_of_failure(*confirmation)));
    });
  }
  for (const IndividualId root : tree.roots) print(tree, root, promoted, standings, output);
  if (!tree.rows.empty())
    output.line(fmt::format(
        "\nnumbers in {}, from duels where there were any; * was the best of the run at some time",
        record.facts().unit_of_fitness));
  return 0;
}

}  // namespace cultivar
