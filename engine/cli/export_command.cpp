// SPDX-License-Identifier: Apache-2.0
#include "engine/export/bundle.hpp"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/store/exchanges.hpp"
#include "evaluators/system/files.hpp"

namespace cultivar {

int export_command(const Arguments& arguments) {
  std::string run, id, out, answers, cover;
  std::vector<std::string> architectures;
  bool as_json = false, force = false, several = false;
  Options options("export",
                  "Writes a kernel as a standalone project: its source, a C++ header to call it, a build "
                  "that checks and times it on any machine, a library for --contender, a PyTorch operator "
                  "with a test (not of opencl kernels), and its measured times, environment and lineage.",
                  "cultivar export runs/quickstart --out best");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.option("--id", id,
                 "an individual's number, a prefix of its variant id, `best` or `seed` (default: best)");
  options.option("--out", out, "the folder to write; replaces an earlier export there (default: RUN/best)");
  options.flag(
      "--portfolio", several,
      "several kernels behind one entry: the best and the specialists that `cultivar portfolio` chose "
      "(default folder: RUN/portfolio)");
  options.each("--arch", architectures,
               "cuda: the architecture to compile for, for example sm_90a (default: that of the run's GPU)");
  options.option("--cover", cover,
                 "sizes for which all code is built in, besides the workloads', for example \"R: 1-65536, C: "
                 "256-16384 step 8\"; for others it is compiled at the first call");
  options.option(
      "--answers", answers,
      "write only the recorded answers of language models to this file, for the provider `replay`");
  options.flag("--force", force, "let --answers replace an existing file");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  const auto folder = find_run(installation, run);
  const Record record = open_run(installation, run);
  const Target target = target_named(record.facts().target);
  for (const std::string& each : architectures)
    if (target->architectures != nullptr)
      if (const std::string trouble = target->architectures->trouble(each); !trouble.empty())
        throw InputError("--arch: " + trouble);
  if (!answers.empty()) {
    std::error_code none;
    if (!force && std::filesystem::exists(std::filesystem::symlink_status(answers, none)))
      throw InputError(answers + " already exists: name another file, or replace it with --force");
    std::string lines;
    const auto exchanges = recorded_exchanges(record);
    if (exchanges.empty())
      throw InputError(
          fmt::format("{}: no language model has answered in this run, so there is nothing to write to {}; "
                      "`cultivar status` shows the calls",
                      run, answers));
    for (const RecordedExchange& exchange : exchanges) lines += to_line(exchange);
    must(write_atomically(std::filesystem::absolute(answers), lines));
    output.facts({{"file", answers}, {"answers", exchanges.size()}});
    output.line(fmt::format("Wrote {} answers to {}", exchanges.size(), answers));
    return 0;
  }
  if (several && !id.empty())
    throw InputError("--portfolio exports the kernels that `cultivar portfolio` chose; leave out --id");
  const IndividualId wanted = id.empty() ? 0 : find_individual(record, id);
  const Runtime runtime = runtime_of(installation);
  std::optional<KernelPortfolio> portfolio;
  if (several) portfolio = must(read_portfolio(record));
  const ExportReport report = must(export_bundle(
      {record, wanted, out.empty() ? folder / (several ? "portfolio" : "best") : std::filesystem::path(out),
       runtime, architectures, portfolio ? &*portfolio : nullptr, cover}));
  output.facts({{"id", report.ids.front()},
                {"kernels", report.ids},
                {"folder", report.folder.string()},
                {"files", report.files},
                {"specialisations", report.specialisations}});
  const std::string place = as_typed(report.folder);
  output.line(fmt::format("Exported #{} to {}:", fmt::join(report.ids, ", #"), place));
  for (const std::string& file : report.files) output.line("  " + file);
  for (const IndividualId each : report.ids)
    if (!portfolio && !record.confirmation(each))
      output.line(fmt::format(
          "#{} was never confirmed: it passed the checks of the search alone, and may be wrong on other "
          "shapes and values that the export accepts. A search that goes on confirms its best.",
          each));
  output.line(fmt::format(
      "To build, check and time it {1}:\n"
      "  cmake -S {0} -B {0}/build && cmake --build {0}/build && {0}/build/verify\n{2}",
      place, where_it_runs(target, devices_here(target)),
      std::filesystem::exists(report.folder / "pytorch")
          ? fmt::format("To use it from PyTorch: python3 {0}/pytorch/test_*.py; see {0}/README.md", place)
          : fmt::format("To use it: see {}/README.md", place)));
  return 0;
}

}  // namespace cultivar
