// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/config/duration.hpp"
#include "engine/export/portfolio_duels.hpp"
#include "engine/export/portfolio_over.hpp"
#include "engine/export/tables.hpp"
#include "engine/search/trust.hpp"
#include "engine/store/record.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

std::string length_words(const PortfolioWork& work) {
  const auto counted = [](std::size_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  std::string words =
      fmt::format("{}, about {} at most", counted(work.duels, "duel"), duration(work.duel_seconds));
  if (work.confirmations > 0)
    words += fmt::format(", then at most {}{}", counted(work.confirmations, "confirmation"),
                         work.each_confirmation_s > 0.0
                             ? fmt::format(" of about {} each", duration(work.each_confirmation_s))
                             : "");
  return words + ". Ctrl-C keeps what is decided; --max-seconds limits the duels.";
}

void print(const KernelPortfolio& portfolio, const std::string& run, const Output& output) {
  Table table({"workload", "kernel", fmt::format("gain over #{}", portfolio.best), "at least", "at most"});
  const auto row = [&](const std::string& name, const std::string& kernel, const PortfolioEntry& ratio) {
    if (kernel == fmt::format("#{}", portfolio.best)) return table.row({name, kernel, "-", "-", "-"});
    table.row(
        {name, kernel, percent_text(ratio.log_ratio), percent_text(ratio.lower), percent_text(ratio.upper)});
  };
  for (const PortfolioEntry& entry : portfolio.entries)
    row(entry.workload, fmt::format("#{}", entry.kernel), entry);
  row("geometric mean", "", portfolio.gain());
  output.line(table.text("  "));
  for (const auto& [id, why] : portfolio.refused) output.line(fmt::format("#{} is left out: {}", id, why));
  if (portfolio.left > 0)
    output.line(
        fmt::format("There was no time for {} more duels; allow more with --max-seconds.", portfolio.left));
  output.line(portfolio.kernels().size() == 1
                  ? fmt::format("Of the kernels that were compared, none is faster than #{} on any workload.",
                                portfolio.best)
                  : fmt::format("To put them behind one entry: {} export {} --portfolio", called_as(),
                                shell_word(run)));
}

void print_over(const KernelPortfolio& portfolio, const std::string& run, const Output& output) {
  const DomainDispatch& over = *portfolio.over;
  output.line(fmt::format("Learnt from {} shapes drawn in \"{}\":", over.learnt, over.domain));
  for (const std::string& rule : rules_of(over.table, over.kernels)) output.line("  " + rule);
  output.line(words_of(figures_of(over, over.drawn), "shapes drawn after the table was fitted"));
  output.line(words_of(figures_of(over, over.listed), "listed shapes"));
  for (const auto& [why, count] : over.left_out)
    output.line(fmt::format("{} of the drawn shapes do not count: {}", count, why));
  for (const auto& [id, why] : portfolio.refused) output.line(fmt::format("#{} is left out: {}", id, why));
  output.line(
      over.kernels.size() == 1
          ? fmt::format("Of the kernels that were measured, none is worth a rule beside #{}.", portfolio.best)
          : fmt::format("To put them behind one entry: {} export {} --portfolio", called_as(),
                        shell_word(run)));
}

// From an interrupted call, or from the last one, which may have had no time for all duels.
PortfolioProgress progress_in(const RunFolder& run) {
  PortfolioProgress progress;
  for (const auto& file : {run.portfolio_so_far(), run.portfolio()}) {
    const auto text = read_file(file);
    if (!text) continue;
    try {
      progress.so_far = foreign_json(*text).get<KernelPortfolio>();
      break;
    } catch (const std::exception&) {  // then it begins anew, and the file is written again
    }
  }
  progress.keep = [file = run.portfolio_so_far()](const KernelPortfolio& decided) {
    must(write_atomically(file, json_text(decided, 2) + "\n"));
  };
  return progress;
}

}  // namespace

int portfolio_command(const Arguments& arguments) {
  std::string run;
  std::vector<std::string> without;
  PortfolioSettings settings;
  int kernels = static_cast<int>(settings.kernels);
  bool as_json = false, trust = false;
  OverSettings over;
  std::vector<std::string> with;
  std::string budget = duration_text(over.budget_s);
  double gib = over.most_bytes / 1073741824.0, milliseconds = 1e3 * over.most_seconds;
  int shapes = static_cast<int>(over.shapes), proof = static_cast<int>(over.proof);
  Options options(
      "portfolio",
      "Finds the specialists of a stopped run: kernels that are faster than its best on some of the "
      "workloads. The most promising ones by the record are compared with the best, each workload "
      "apart, in interleaved, randomized pairs; those that are chosen are confirmed. With --over a small "
      "table of rules that says which kernel a call goes to is learnt from shapes drawn in a domain, and "
      "proved on shapes that are drawn afterwards, beside the run's contenders. What is measured is kept at "
      "once: the same command goes on after an interruption. `cultivar export "
      "RUN --portfolio` puts the kernels behind one entry.",
      "cultivar portfolio runs/attention-h100 --kernels 4\n  "
      "cultivar portfolio runs/softmax --over \"R: 1-65536, C: 256-16384 step 8\" --budget 10m");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.option("--kernels", kernels, "the largest number of kernels, the best included");
  options.option("--each", settings.each, "how many candidates are compared for each workload");
  options.each("--without", without,
               "a kernel that must not be a specialist: its number, or a prefix of its variant id");
  options.option("--max-seconds", settings.max_seconds, "limit on the duels; confirmations follow");
  options.option(
      "--over", over.domain,
      "learn over this domain, in which shapes are drawn with all orders of magnitude equally often and at "
      "the numbers with which a kernel compares: \"B: 1-256, H: 8-64 step x2, S_q: 1-32768, causal: "
      "0-1\"; what it does not name is as in the first workload");
  options.each("--with", with, "--over: a kernel that is measured whatever the record says of its speed");
  options.option("--shapes", shapes, "--over: how many drawn shapes the table is learnt from");
  options.option("--proof", proof, "--over: how many shapes are drawn afterwards to prove it");
  options.option(
      "--budget", budget,
      "--over: limit on the time of this call's measurements, of which at least half is for the proof; "
      "another call goes on");
  options.option("--most-gib", gib, "--over: no shape has larger tensors, all together");
  options.option("--most-ms", milliseconds, "--over: no shape takes longer, by the fastest kernel");
  options.flag("--trust", trust, "run the programs that the record names: see `cultivar resume --help`");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;
  if (kernels < 2) throw InputError("--kernels must be at least 2: the best and one specialist");
  if (settings.each < 1) throw InputError("--each must be at least 1");
  if (!(settings.max_seconds > 0.0)) throw InputError("--max-seconds must be above 0, for example 600");
  settings.kernels = over.kernels = static_cast<std::size_t>(kernels);
  settings.seed = std::random_device{}();
  over.seed = std::uint64_t{std::random_device{}()} << 32 | std::random_device{}();
  const bool learns = !over.domain.empty();
  if (!learns && !with.empty()) throw InputError("--with names kernels for --over, which is not given");
  if (shapes < 4 || proof < 1) throw InputError("--shapes must be at least 4 and --proof at least 1");
  const auto budget_s = duration_seconds(budget);
  if (!budget_s || !(*budget_s > 0.0))
    throw InputError(fmt::format("--budget: '{}' is no duration; write for example 10m", budget));
  if (!(gib > 0.0) || !(milliseconds > 0.0))
    throw InputError("--most-gib and --most-ms must be above 0, for example 32 and 100");
  over.each = settings.each;
  over.shapes = static_cast<std::size_t>(shapes);
  over.proof = static_cast<std::size_t>(proof);
  over.budget_s = *budget_s;
  over.most_bytes = gib * 1073741824.0;
  over.most_seconds = 1e-3 * milliseconds;

  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  const auto folder = find_run(installation, run);
  const Record record = must(Record::open(folder));
  for (const std::string& each : without) settings.without.insert(find_individual(record, each));
  for (const std::string& each : with) over.with.insert(find_individual(record, each));
  over.without = settings.without;
  if (const auto best = record.best(); best && settings.without.contains(*best))
    throw InputError(
        fmt::format("--without: #{} is the run's best kernel, which is always part of a portfolio", *best));
  if (summary_of(record).alive())
    throw InputError(
        fmt::format("the search is running, and would disturb the measurements; stop it first: {} "
                    "stop {}",
                    called_as(), shell_word(run)));
  Runtime runtime = runtime_of(installation);
  runtime.trusts_record = trust;
  const Config config =
      recorded_config(record.facts().config_yaml, RunFolder(folder), {}, runtime.installation);
  require_trust(config, RunFolder(folder), runtime);
  const auto evaluator = make_worker_evaluator(config, config.task_folder, runtime);
  if (learns) {
    std::optional<StepLine> line("portfolio");
    std::optional<WhenInterrupted> watch([&] { evaluator->interrupt(); });
    const KernelPortfolio portfolio = must(decide_portfolio_over(
        record, config, *evaluator, over, RunFolder(folder).portfolio_over(),
        [&](const std::string& step) { line->show(step); }, interrupted()));
    watch.reset();
    line.reset();
    must(write_atomically(RunFolder(folder).portfolio(), json_text(portfolio, 2) + "\n"));
    nlohmann::json facts = portfolio;
    facts["drawn"] = figures_of(*portfolio.over, portfolio.over->drawn);
    facts["listed"] = figures_of(*portfolio.over, portfolio.over->listed);
    output.facts(facts);
    print_over(portfolio, run, output);
    return 0;
  }
  PortfolioProgress progress = progress_in(RunFolder(folder));
  if (progress.so_far.best == record.best() && !progress.so_far.duels.empty())
    output.line(fmt::format("Going on from an earlier call: {} duels, {} confirmations.",
                            progress.so_far.duels.size(), progress.so_far.confirmations.size()));
  output.line(length_words(portfolio_work(record, config, settings, progress.so_far)));
  std::optional<StepLine> line("portfolio");
  std::optional<WhenInterrupted> watch([&] { evaluator->interrupt(); });
  const KernelPortfolio portfolio = must(decide_portfolio(
      record, config, *evaluator, settings, [&](const std::string& step) { line->show(step); }, interrupted(),
      std::move(progress)));
  watch.reset();
  line.reset();
  must(write_atomically(RunFolder(folder).portfolio(), json_text(portfolio, 2) + "\n"));
  std::error_code gone;
  std::filesystem::remove(RunFolder(folder).portfolio_so_far(), gone);
  output.facts(portfolio);
  print(portfolio, run, output);
  return 0;
}

}  // namespace cultivar
