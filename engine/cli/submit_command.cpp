// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "engine/cli/commands.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/cli/variant_argument.hpp"
#include "engine/search/search.hpp"
#include "engine/store/record.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/store/similar_idea.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {
namespace {

// The number that a running search gives a submission, once it has taken the file out of the inbox; nullopt:
// it has not within some seconds, or has refused the file.
std::optional<IndividualId> number_of(const Record& record, const std::filesystem::path& waiting,
                                      const std::string& source, const std::string& note) {
  constexpr double kPatience = 5.0;
  const Clock::time_point deadline = deadline_in(kPatience);
  std::error_code none;
  while (std::filesystem::exists(waiting, none)) {
    if (Clock::now() >= deadline || interrupted()) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::optional<IndividualId> number;
  record.each_individual([&](const IndividualRow& row) {
    const Descent& descent = row.individual.descent;
    if (descent.origin == Origin::submission && descent.note == note &&
        record.source(row.individual.id) == source)
      number = row.individual.id;
  });
  return number;
}

}  // namespace

int submit_command(const Arguments& arguments) {
  std::string run, file, note;
  std::vector<std::string> from;
  bool as_json = false, again = false;
  Options options("submit", "Submits a hand-written variant to a search, running or stopped.",
                  "cultivar submit runs/quickstart my_kernel.cpp --from best --note \"two rows at once\"");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.argument("FILE", file, "the variant's source; append @NAME=VALUE,... to set tunables");
  options.option("--note", note,
                 "a description of the idea, stored in the record; by default the name of the file");
  options.each(
      "--from", from,
      "a parent, for the lineage: an individual's number, a prefix of its variant id, `best` or `seed` "
      "(the first one)");
  options.flag("--again", again, "have a kernel evaluated once more that this run rejected");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  const auto folder = find_run(installation, run);
  const VariantArgument variant = split_variant_argument(file);
  // The run's copy of the task has no headers.
  const auto task = known_task(installation, task_name_in(variant.name));
  const std::string source = read_source(variant.name, task.value_or(""));
  if (note.empty()) note = plain_line(std::filesystem::path(variant.name).filename().string(), 200);
  const Record record = must(Record::open(folder));
  std::vector<IndividualId> parents;
  for (const std::string& text : from) {
    const auto of_run = split_run_and_id(text);
    if (of_run && find_run(installation, of_run->first) != folder)
      throw InputError(fmt::format("--from {}: a parent must be an individual of this run, {}", text, run));
    const IndividualId id = find_individual(record, of_run ? of_run->second : text);
    if (std::ranges::find(parents, id) == parents.end()) parents.push_back(id);
  }
  const auto waiting = [&] {
    try {
      return must(submit_variant(folder, source, variant.configuration, note, parents, again));
    } catch (const InputError& error) {
      throw InputError(variant.name + ": " + error.what());
    }
  }();
  const std::string similar = similar_earlier(record, source, parents.empty() ? 0 : parents.front());
  const bool running = RunLock::holder(RunFolder(folder)).has_value();
  const auto number = running ? number_of(record, waiting, source, note) : std::nullopt;
  output.facts({{"run", folder.string()},
                {"waiting", waiting.string()},
                {"individual", number ? nlohmann::json(*number) : nlohmann::json()},
                {"similar", similar}});
  if (!similar.empty()) output.line(similar + "It is evaluated all the same.");
  if (number) {
    output.line(fmt::format(
        "It is #{0}. The running search compiles and checks it; `{1} show {2} {0}` shows what came of it.",
        *number, called_as(), as_typed(folder)));
    return 0;
  }
  if (running) {
    output.line(
        "Its manifest is valid. The running search picks it up, compiles and checks it; then `status` and "
        "`lineage` show it.");
    return 0;
  }
  const std::string more = twice_what_is_spent(summary_of(record));
  output.line(fmt::format(
      "Its manifest is valid; stored as {}. The search compiles and checks it when it is resumed:\n"
      "  {} resume {}{}",
      as_typed(waiting), called_as(), as_typed(folder), more));
  return 0;
}

}  // namespace cultivar
