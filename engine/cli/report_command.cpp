// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/dashboard/page.hpp"
#include "engine/export/tables.hpp"
#include "engine/report/chart.hpp"
#include "engine/report/event_file.hpp"
#include "engine/store/exchanges.hpp"
#include "engine/store/summary.hpp"
#include "engine/views/kernel_table.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

constexpr const char* picture = "running_best.svg";
constexpr const char* mark = kPageMark;

// Files that `report` did not write are not replaced.
void require_ours(const fs::path& page) {
  std::error_code none;
  if (!fs::exists(page, none)) return;
  if (!fs::is_regular_file(page, none) || read_file(page).value_or("").find(mark) == std::string::npos)
    throw InputError(fmt::format(
        "{} exists and was not written by `cultivar report`: name another folder with --out", page.string()));
}

std::string in_short(const RunReport& run_report, const Record& record, const RunFacts& facts) {
  const Summary& s = run_report.summary;
  MarkdownTable table({"", ""});
  table.row({"best", s.best ? text_of(*s.best) : "none yet"});
  if (const auto confirmed = s.best ? record.confirmation(s.best->id) : std::nullopt)
    table.row({"confirmed", fmt::format("at {:.4g} {} in a fresh process with new inputs", confirmed->fitness,
                                        confirmed->unit)});
  if (s.outstanding) table.row({"next", text_of(*s.outstanding)});
  for (const auto& [what, when] : times_of(s)) table.row({what, when.substr(0, when.rfind(','))});
  table.row({"evaluated", judged_text(s)});
  if (s.evaluations_per_hour > 0.0) table.row({"rate", rate_text(s)});
  table.row({"gate", fmt::format("duels: {}, promotions: {}", s.duels, s.promotions)});
  table.row({"search time", fmt::format("{} in {} session{}", duration(s.elapsed_s), run_report.sessions,
                                        run_report.sessions == 1 ? "" : "s")});
  table.row({"evaluations took", fmt::format("{}, summed over all workers; duels and confirmations apart",
                                             duration(run_report.device_s))});
  for (const std::string& device : s.devices) table.row({"device", device});
  table.row({"workloads", fmt::format("{}", fmt::join(facts.workloads, ", "))});
  return fmt::format("`{}` on {}, {}{}.\n\n", in_code(s.task), in_a_cell(s.target), in_a_cell(s.state),
                     s.stop_reason.empty() ? "" : " (" + in_a_cell(s.stop_reason) + ")") +
         table.text();
}

// Each best kernel with the previous best, which need not be its parent.
std::string steps_text(const RunReport& run_report, const Record& record, const std::string& unit) {
  if (run_report.steps.empty()) return "No kernel has been promoted yet.\n";
  MarkdownTable table({"kernel", "after", "evaluated", unit, "gain over the previous best in their duel",
                       "operator", "parents", "change"});
  Standings standings(record);
  for (const BestStep& step : run_report.steps) {
    const auto row = record.individual(step.id);
    if (!row) continue;
    const Individual& i = row->individual;
    const DuelResult* const duel = standings.duel(step.id);
    const auto parent =
        i.descent.parents.empty() ? std::nullopt : record.individual(i.descent.parents.front());
    table.row({fmt::format("#{}", step.id), duration(step.elapsed_s), fmt::format("{}", step.evaluations),
               fmt::format("{:.4g}", step.fitness), duel ? gain_words(duel->all) : "",
               origin_name(i.descent) + (i.descent.model.empty() ? "" : " with " + i.descent.model),
               i.descent.parents.empty() ? "" : fmt::format("#{}", fmt::join(i.descent.parents, ", #")),
               plain_line(parent ? change_of(parent->individual, i) : i.descent.note, 400)});
  }
  return table.text();
}

std::string yields_text(const RunReport& run_report, const std::string& unit) {
  MarkdownTable table({"operator", "model", "proposed", "measured", "rejected", "challengers", "promoted",
                       "best " + unit, "worker time", "calls", "tokens", "USD"});
  const auto number = [](std::int64_t n) { return fmt::format("{}", n); };
  for (const auto& [who, y] : run_report.yields)
    table.row({who.first, who.second, number(y.proposed), number(y.measured), number(y.rejected),
               number(y.challengers), number(y.promoted), y.best > 0.0 ? fmt::format("{:.4g}", y.best) : "",
               duration(y.device_s), y.calls ? number(y.calls) : "", y.calls ? number(y.tokens) : "",
               y.usd > 0.0 ? fmt::format("{:.2f}", y.usd) : ""});
  return table.text();
}

std::string interventions_text(const RunReport& run_report) {
  MarkdownTable table(
      {"after", "intervention", "evaluated", "measured", "best gain over the parent", "promoted"});
  for (const InterventionRow& row : run_report.interventions) {
    const auto& result = row.result;
    table.row({duration(row.at_s), text_of(row.intervention),
               result ? fmt::format("{}", result->evaluated) : "",
               result ? fmt::format("{}", result->measured) : "not ended",
               result && result->best_gain > 0.0 ? fmt::format("{:+.1f} %", 100.0 * result->best_gain) : "",
               row.promoted.empty() ? "" : fmt::format("#{}", fmt::join(row.promoted, ", #"))});
  }
  return table.text();
}

std::string reasons_text(const RunReport::Reasons& reasons) {
  constexpr std::size_t most = 12;
  MarkdownTable table({"count", "stage and reason"});
  std::int64_t others = 0;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (i < most)
      table.row({fmt::format("{}", reasons[i].second), plain_line(reasons[i].first, 300)});
    else
      others += reasons[i].second;
  }
  if (others > 0)
    table.row({fmt::format("{}", others), fmt::format("{} other reasons", reasons.size() - most)});
  return table.text();
}

std::string columns_text(const RunFacts& facts) {
  MarkdownTable table({"column", "meaning"});
  for (const FileColumn& column : file_columns()) table.row({column.name, column.about});
  return fmt::format("# Columns of kernels.csv and kernels.jsonl of {}\n\nThe unit of speed is {}.\n\n",
                     in_a_cell(facts.name), in_a_cell(facts.unit_of_fitness)) +
         table.text() +
         "\nIn CSV, texts are in quotes, with an apostrophe before =, +, - and @, so that no spreadsheet "
         "takes them for formulas. In JSON lines, what is empty here is null.\n";
}

std::string page(const RunReport& run_report, const Record& record, const RunFacts& facts) {
  const std::string unit = facts.unit_of_fitness + (run_report.paced ? "*" : "");
  std::string text =
      fmt::format("# {}\n\n![Fitness of every judged kernel over search time, and the best so far]({})\n\n",
                  in_a_cell(run_report.summary.run), picture);
  text += in_short(run_report, record, facts);
  if (!run_report.unconfirmed.empty())
    text += "\n## Failed their confirmation\n\n" + reasons_text(run_report.unconfirmed);
  text += "\n## History of the best kernel\n\n" + steps_text(run_report, record, unit);
  text += "\n## Results by operator\n\n" + yields_text(run_report, unit);
  if (run_report.summary.plan.is_object()) {
    text += fmt::format("\n## The present plan, of question {}\n\n",
                        run_report.summary.plan.value("question", 0));
    for (const nlohmann::json& strategy :
         run_report.summary.plan.value("strategies", nlohmann::json::array()))
      text += "- " + in_a_cell(strategy.get<std::string>()) + "\n";
  }
  if (!run_report.interventions.empty())
    text += "\n## Interventions of the supervisor\n\n" + interventions_text(run_report);
  if (run_report.summary.best) {
    const IndividualId best = run_report.summary.best->id;
    if (const auto confirmed = record.confirmation(best))
      text += fmt::format("\n## #{} confirmed in a fresh process\n\n", best) + workload_table(*confirmed) +
              exactness_section(*confirmed);
    else if (const auto searched = record.evaluation(best))
      text += fmt::format("\n## #{} during the search\n\n", best) + workload_table(*searched) +
              exactness_section(*searched);
    text += fmt::format("\n## Lineage of #{}\n\n", best) +
            lineage_text(record.paced_lineage(best), facts.unit_of_fitness);
  }
  if (!run_report.rejections.empty()) text += "\n## Rejected\n\n" + reasons_text(run_report.rejections);
  text += std::string("\n") + mark + ".";
  if (run_report.paced)
    text +=
        "\n\n\\* Scaled to the device's speed at the start of the search, so that kernels measured at "
        "different device speeds (temperature, another device) can be compared; the chart is scaled the same "
        "way. `status` shows the unscaled measurements. A single measurement is noisy: only duels decide "
        "which kernel is faster.";
  return text + "\n";
}

}  // namespace

int report_command(const Arguments& arguments) {
  std::string run, out, tensorboard;
  bool as_json = false, html = false, csv = false, lines = false;
  Options options(
      "report",
      "Writes a run's history as a Markdown page with a chart: how the best kernel was found, the results of "
      "each operator, what was rejected and why.",
      "cultivar report runs/quickstart --out story");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.option("--out", out, "the folder for report.md and running_best.svg (default: RUN/report)");
  options.flag("--html", html,
               "also write report.html: the dashboard's page of this run as one file, which needs no server "
               "and asks for nothing");
  options.flag("--csv", csv,
               "also write kernels.csv: a line for every individual, whose columns columns.md explains");
  options.flag("--jsonl", lines, "also write kernels.jsonl: the same as JSON lines");
  options.option("--tensorboard", tensorboard,
                 "also write the run as an event file into this folder, for `tensorboard --logdir`");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const fs::path run_folder = find_run(find_installation(), run);
  const Record record = open_run(find_installation(), run);
  const fs::path folder = out.empty() ? run_folder / "report" : fs::path(out);
  std::error_code trouble;
  fs::create_directories(folder, trouble);
  if (trouble)
    throw std::runtime_error(fmt::format("cannot create {}: {}; name another folder with --out",
                                         folder.string(), trouble.message()));
  require_ours(folder / "report.md");
  if (html) require_ours(folder / "report.html");
  RunIndex index;
  index.update(record);
  const RunReport run_report = tell(record, index);
  const RunFacts facts = record.facts();
  must(write_atomically(fs::absolute(folder / picture),
                        running_best_chart(run_report, facts.unit_of_fitness)));
  must(write_atomically(fs::absolute(folder / "report.md"), page(run_report, record, facts)));

  std::vector<std::string> files{"report.md", picture};
  const auto write = [&](const char* name, const std::string& text) {
    must(write_atomically(fs::absolute(folder / name), text));
    files.emplace_back(name);
  };
  const auto write_rows = [&](const char* name, const auto& each_line) {
    std::string text;
    each_line(record, index, [&](std::string_view line) { text += line; });
    write(name, text);
  };
  if (html) write("report.html", page_of_run(record, index));
  if (csv) write_rows("kernels.csv", each_csv_line);
  if (lines) write_rows("kernels.jsonl", each_json_line);
  if (csv || lines) write("columns.md", columns_text(facts));
  const std::string written = fmt::format("Wrote {} to {}", fmt::join(files, ", "), as_typed(folder));
  if (!tensorboard.empty()) {
    const fs::path events =
        fs::path(tensorboard) / fmt::format("events.out.tfevents.{:.0f}.cultivar", facts.created_at);
    must(write_atomically(fs::absolute(events), event_file(index, facts.created_at)));
    files.push_back(as_typed(events));
    output.line("Wrote " + as_typed(events));
  }
  output.facts(report_facts(run_report, folder, files));
  output.line(written);
  return 0;
}

}  // namespace cultivar
