#include "engine/export/bundle.hpp"

#include <nlohmann/json.hpp>

#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/cli/trouble.hpp"
#include "engine/store/checkpoint.hpp"
#include "engine/store/exchanges.hpp"
#include "evaluators/targets/cuda/known_devices.hpp"

namespace cultivar {

int export_command(const Arguments& arguments) {
  std::string run, id, out, answers;
  std::vector<std::string> architectures;
  bool as_json = false, force = false;
  Options options(
      "export",
      "Writes a kernel as a project of its own: source, a C++ header that calls it, a build that checks and "
      "times it on any machine, a library that --contender takes, a PyTorch operator with its test, the "
      "table "
      "of its times, its environment and its descent.",
      "cultivar export runs/quickstart --out best");
  options.argument("RUN", run, "a run's folder, or its name below runs/");
  options.option("--id", id, "a number, the beginning of a variant id, `best` or `seed` (default: best)");
  options.option("--out", out,
                 "the folder to write; an earlier export in it is replaced (default: RUN/best)");
  options.each(
      "--arch", architectures,
      "cuda: what to compile for, as sm_90a; may be given again (default: the run's own kind of card)");
  options.option("--answers", answers,
                 "writes what language models answered to this file instead, for the provider `replay`");
  options.flag("--force", force, "--answers may replace a file that is there");
  options.flag("--json", as_json, "facts as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  for (const std::string& each : architectures)
    if (const std::string trouble = trouble_with_architecture(each); !trouble.empty())
      throw InputError("--arch: " + trouble);
  const Output output(as_json);
  const House house = find_house();
  const auto folder = find_run(house, run);
  const Record record = must(Record::open(folder));
  if (!answers.empty()) {
    std::error_code none;
    if (!force && std::filesystem::exists(std::filesystem::symlink_status(answers, none)))
      throw InputError(answers + " is there already: name another file, or replace it with --force");
    std::string lines;
    const auto exchanges = recorded_exchanges(record);
    if (exchanges.empty())
      throw InputError(
          fmt::format("{}: no language model has answered in this run, so there is nothing to write to {} "
                      "(`cultivar status` says what was asked)",
                      run, answers));
    for (const RecordedExchange& exchange : exchanges) lines += to_line(exchange);
    must(write_atomically(std::filesystem::absolute(answers), lines));
    output.facts({{"file", answers}, {"answers", exchanges.size()}});
    output.line(fmt::format("{} answers are in {}", exchanges.size(), answers));
    return 0;
  }
  const IndividualId wanted = id.empty() ? 0 : find_individual(record, id);
  const Surface surface = surface_of(house);
  const ExportReport report = must(export_bundle(
      {record, wanted, out.empty() ? folder / "best" : std::filesystem::path(out), surface, architectures}));
  output.facts({{"id", report.id},
                {"folder", report.folder.string()},
                {"files", report.files},
                {"specialisations", report.specialisations}});
  const std::string place = as_typed(report.folder);
  output.line(fmt::format("#{} is exported to {}:", report.id, place));
  for (const std::string& file : report.files) output.line("  " + file);
  output.line(
      fmt::format("Build, check and time it here or elsewhere:\n"
                  "  cmake -S {0} -B {0}/build && cmake --build {0}/build && {0}/build/verify\n"
                  "Then from PyTorch: python3 {0}/pytorch/test_*.py, and {0}/README.md",
                  place));
  return 0;
}

}  // namespace cultivar
