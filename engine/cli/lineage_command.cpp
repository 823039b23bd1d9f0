// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/record_views.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

struct Tree {
  std::map<IndividualId, IndividualRow> rows;
  std::map<IndividualId, std::set<IndividualId>> children;
  std::set<IndividualId> roots;
  struct Settings {
    std::int64_t count = 0;
    IndividualId best = 0;
    double fitness = 0.0;
  };
  std::map<IndividualId, Settings> settings;  // that are counted, by the kernel that they were derived from

  // The chain of first parents that leads to an individual.
  void add(const std::vector<IndividualRow>& line) {
    IndividualId before = 0;
    for (const IndividualRow& row : line) {
      const IndividualId id = row.individual.id;
      rows.emplace(id, row);
      if (before == 0)
        roots.insert(id);
      else
        children[before].insert(id);
      before = id;
    }
  }
};

// All sources of a run. Settings of a source that led to nothing else are only counted.
Tree whole_tree(const Record& record, const std::set<IndividualId>& promoted, Standings& standings) {
  std::map<IndividualId, IndividualRow> all;
  record.each_individual([&](const IndividualRow& row) { all.emplace(row.individual.id, row); });
  const auto parent_of = [&](IndividualId id) {
    const auto& parents = all.at(id).individual.descent.parents;
    if (parents.empty() || !all.contains(parents.front())) return IndividualId{0};
    if (parents.front() >= id)  // a circle would never end
      throw InputError(fmt::format("the record is damaged: #{}, a parent of #{}, is not older than it",
                                   parents.front(), id));
    return parents.front();
  };
  std::set<IndividualId> shown;
  for (const auto& [id, row] : all) {
    const IndividualId parent = parent_of(id);
    const bool setting = parent != 0 && all.at(parent).individual.source_id == row.individual.source_id;
    if (setting && !promoted.contains(id)) continue;
    for (IndividualId at = id; at != 0 && shown.insert(at).second;) at = parent_of(at);
  }
  Tree tree;
  for (const auto& [id, row] : all) {
    const IndividualId parent = parent_of(id);
    if (shown.contains(id)) {
      tree.rows.emplace(id, row);
      if (parent == 0)
        tree.roots.insert(id);
      else
        tree.children[parent].insert(id);
      continue;
    }
    IndividualId nearest = parent;
    while (!shown.contains(nearest)) nearest = parent_of(nearest);
    Tree::Settings& settings = tree.settings[nearest];
    ++settings.count;
    if (row.state != IndividualState::measured) continue;
    const double fitness = standings.fitness(row);
    if (fitness <= settings.fitness) continue;
    settings.fitness = fitness;
    settings.best = id;
  }
  return tree;
}

std::string line_of(const Tree& tree, IndividualId id, IndividualId parent, const std::string& branch,
                    const std::set<IndividualId>& promoted, Standings& standings) {
  const IndividualRow& row = tree.rows.at(id);
  const std::string value =
      row.state == IndividualState::measured
          ? fmt::format("{:.4g}{}", standings.fitness(id), row.expelled ? " (failed confirmation)" : "")
      : row.state == IndividualState::proposed ? "pending"
                                               : "rejected at " + row.stage;
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
                     duel ? ", " + duel_text(*duel) : "", origin_name(row.individual.descent),
                     change.empty() ? "" : ": " + plain_line(change, 400), others);
}

// Not recursive: a chain may be as long as the run.
void print(const Tree& tree, IndividualId root, const std::set<IndividualId>& promoted, Standings& standings,
           const Output& output) {
  constexpr std::size_t widest = 240;  // indented no further
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
    output.line(line_of(tree, now.id, now.parent,
                        now.indent + (top        ? ""
                                      : now.last ? "`- "
                                                 : "|- "),
                        promoted, standings));
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
  Tree tree;
  Standings standings(record);
  std::set<IndividualId> promoted;
  for (const PromotionRow& promotion : record.promotions()) promoted.insert(promotion.individual);
  if (text.empty()) {
    tree = whole_tree(record, promoted, standings);
  } else {
    const IndividualId id = find_individual(record, text);
    tree.add(record.lineage(id));
    for (const IndividualId child : record.descendants(id)) {
      if (const auto row = record.individual(child)) {
        tree.rows.emplace(child, *row);
        tree.children[id].insert(child);
      }
    }
  }
  if (as_json) {
    json nodes = json::array();
    for (const auto& [id, row] : tree.rows) {
      json node = facts_of(row);
      node["promoted"] = promoted.contains(id);
      node["standing"] = standings.fitness(id);
      if (const DuelResult* const duel = standings.duel(id)) node["duel"] = facts_of(*duel);
      nodes.push_back(node);
    }
    output.facts(nodes);
    return 0;
  }
  if (text.empty() && promoted.empty()) {
    output.line("No kernel has become the best of this run yet.");
    record.each_individual([&](const IndividualRow& row) {
      const auto confirmation = row.expelled ? record.confirmation(row.individual.id) : std::nullopt;
      if (confirmation)
        output.line(fmt::format("#{} won its duel but failed confirmation at {}: {}", row.individual.id,
                                name_of(confirmation->stage), confirmation->reason));
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
