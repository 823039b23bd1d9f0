// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <optional>

#include "engine/cli/commands.hpp"
#include "engine/cli/config_checks.hpp"
#include "engine/cli/detached_search.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/search/beginning.hpp"
#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {
namespace {

// None of a record that cannot be read.
std::optional<Summary> readable_summary(const std::filesystem::path& folder) try {
  const auto record = Record::open(folder);
  return record ? std::optional(summary_of(*record)) : std::nullopt;
} catch (const std::exception&) {
  return std::nullopt;
}

// A session that had nothing left to spend looks like one that found nothing.
void tell_if_idle(const Summary& before, const Summary& after, const Outcome& outcome,
                  const std::filesystem::path& folder) {
  if (after.evaluations > before.evaluations || after.duels > before.duels) return;
  if (outcome.stop != Outcome::Stop::wall && outcome.stop != Outcome::Stop::evaluations) return;
  notify("Nothing was evaluated or compared: {}. To continue:\n  {} resume {}{}\n", outcome.reason,
         called_as(), as_typed(folder), twice_what_is_spent(after));
}

void ask_again(const std::filesystem::path& folder, const std::string& text) {
  const Record record = must(Record::open(folder));
  const IndividualId id = find_individual(record, text);
  const Individual individual = record.individual(id)->individual;
  must(submit_variant(folder, record.source(id), individual.configuration, fmt::format("again: #{}", id),
                      {id}, true));
}

}  // namespace

int resume_command(const Arguments& arguments) {
  std::string run;
  std::vector<std::string> overrides, again;
  bool trust = false;
  SessionOptions session;
  Options options("resume", "Resumes a stopped search exactly where its record ends.",
                  "cultivar resume runs/quickstart --set budget.wall=1h");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.each(
      "--set", overrides,
      "budget.KEY=VALUE: a new budget, larger than what is already used; gate.KEY=VALUE: a setting of "
      "the gate for later duels; undecided challengers of the best kernel are compared again; "
      "what can change: " +
          changeable_settings());
  options.each("--again", again,
               "an individual that was rejected, by its number or a prefix of its variant id: evaluate its "
               "kernel once more");
  options.flag("--trust", trust,
               "run the programs that the record names: its launcher, and commands, interpreters, libraries, "
               "addresses, mailboxes and recorded answers of models not used here before");
  session.add_to(options);
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(session.as_json);
  const InstallationPaths installation = find_installation();
  const auto folder = find_run(installation, run);
  for (const std::string& each : again) ask_again(folder, each);
  if (session.detach) {
    std::vector<std::string> words{"resume", folder.string()};
    for (const std::string& each : overrides) words.insert(words.end(), {"--set", each});
    if (trust) words.emplace_back("--trust");
    std::ranges::copy(session.again(), std::back_inserter(words));
    return start_detached(std::move(words), RunFolder(folder), output);
  }
  for (const std::string& limit : limit_warnings()) notify("Warning: {}.\n", limit);
  session.open_log();
  return search_session(installation, folder, output, session,
                        [&](Runtime runtime, const SearchCallbacks& callbacks) {
                          runtime.trusts_record = trust;
                          // A damaged record is restored before the first event.
                          std::optional<Summary> before;
                          SearchCallbacks heard = callbacks;
                          heard.event = [&](const Event& event) {
                            if (!before) before = readable_summary(folder);
                            if (callbacks.event) callbacks.event(event);
                          };
                          auto outcome = resume_search(folder, overrides, runtime, heard, interrupted());
                          if (const auto after = readable_summary(folder); outcome && before && after)
                            tell_if_idle(*before, *after, *outcome, folder);
                          return outcome;
                        });
}

}  // namespace cultivar
