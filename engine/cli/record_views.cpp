// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/record_views.hpp"

#include <set>

#include "engine/cli/output.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/plain_text.hpp"
#include "population/individual.hpp"

namespace cultivar {

using nlohmann::json;

Record open_run(const InstallationPaths& installation, const std::string& run) {
  const auto folder = find_run(installation, run);
  Record record = must(Record::open(folder));
  if (const std::string lost = record.lost_steps(); !lost.empty())
    notify("{}: {}.\n", as_typed(folder), lost);
  return record;
}

std::string counted(std::int64_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string evaluation_table(const Evaluation& evaluation, const std::string& indent) {
  std::set<std::string> contenders;
  for (const WorkloadResult& w : evaluation.workloads)
    for (const auto& [name, ratio] : w.ratios) contenders.insert(name);
  std::vector<std::string> heads{"workload", "median", "q1 - q3", "samples", evaluation.unit};
  for (const std::string& name : contenders) heads.push_back("vs " + name);
  Table table(heads);
  for (const WorkloadResult& w : evaluation.workloads) {
    std::vector<std::string> cells{
        w.workload, time_of(w.median_us), fmt::format("{} - {}", time_of(w.q1_us), time_of(w.q3_us)),
        w.discarded == 0 ? fmt::format("{}", w.samples.size())
                         : fmt::format("{} ({} discarded)", w.samples.size(), w.discarded),
        fmt::format("{:.4g}", w.value)};
    for (const std::string& name : contenders) {
      const auto found = w.ratios.find(name);
      cells.push_back(found == w.ratios.end() ? "" : ratio_words(found->second));
    }
    table.row(cells);
  }
  const auto beside = beside_best_contenders(evaluation);
  return table.text(indent) + (beside ? indent + words_of(*beside) + "\n" : "");
}

std::string exactness_table(const Evaluation& evaluation, const std::string& indent) {
  const std::vector<std::vector<std::string>> rows = exactness_rows(evaluation);
  if (rows.empty()) return {};
  Table table(rows.front());
  for (std::size_t i = 1; i < rows.size(); ++i) table.row(rows[i]);
  const std::string words = exactness_words(evaluation);
  return table.text(indent) + (words.empty() ? "" : indent + words + "\n");
}

namespace {

void print_supervisor(const Summary& s, const Output& output) {
  if (!s.supervisor.is_object()) return;
  for (const char* which : {"current", "last"})
    if (const json& shown = s.supervisor.value(which, json()); shown.is_object())
      output.line("  supervisor  " + plain_line(shown.value("text", ""), 300));
}

void print_plan(const Summary& s, const Output& output) {
  if (!s.plan.is_object()) return;
  constexpr std::size_t kShown = 90;  // bytes of a strategy
  std::string all;
  for (const json& strategy : s.plan.value("strategies", json::array()))
    all += (all.empty() ? "" : "; ") + plain_line(strategy.get<std::string>(), kShown);
  output.line(fmt::format("  plan        of question {}: {}", s.plan.value("question", 0), all));
}

void print_models(const Summary& s, const Output& output) {
  if (!s.questions.is_object()) return;
  const std::string paused = s.questions.value("paused", "");
  std::string waits;
  if (s.alive())
    for (const auto& where : s.questions.value("waits_for", json::array()))
      waits += (waits.empty() ? "; waits for " : ", ") + where.get<std::string>();
  const auto nothing = s.questions.value("nothing", std::int64_t{0});
  const std::string why = plain_line(s.questions.value("why_nothing", ""), 300);
  output.line(fmt::format("  questions   {} open{}{}{}{}", s.questions.value("open", 0),
                          nothing > 0 ? fmt::format(", {} without a proposal", nothing) : std::string(),
                          nothing > 0 && !why.empty() ? " (the last: " + why + ")" : "", waits,
                          paused.empty() ? "" : "; paused: " + paused));
  const json unended = s.questions.value("unended", json::object());
  if (const auto calls = unended.value("calls", std::int64_t{0}); calls > 0) {
    const double usd = unended.value("usd", 0.0);
    output.line(
        fmt::format("  unknown     {} call{} with unknown outcome, counted at the upper bound of {} tokens{}",
                    calls, calls == 1 ? "" : "s", unended.value("tokens", std::int64_t{0}),
                    usd > 0 ? fmt::format(" and {:.4f} USD", usd) : std::string()));
  }
  if (s.alive())
    for (const auto& agent : s.questions.value("agents", json::array()))
      output.line(fmt::format("  agent       question {}, step {}{}, {:.1f} s of device time",
                              agent.value("question", 0), agent.value("step", 0),
                              agent.value("tool", "").empty() ? ": thinking" : ": " + agent.value("tool", ""),
                              agent.value("device_s", 0.0)));
  std::string tools;
  for (const auto& [name, use] : s.tools.items())
    tools += fmt::format("{}{} {}", tools.empty() ? "" : ", ", name, use.value("calls", 0));
  if (!tools.empty()) output.line("  tools       " + tools);
  for (const auto& [name, model] : s.models.items())
    output.line(
        fmt::format("  model       {}: {}, {} in flight, {} tokens, {:.4f} USD{}", name,
                    counted(model.value("calls", std::int64_t{0}), "call"), model.value("in_flight", 0),
                    model.value("/tokens/total"_json_pointer, std::int64_t{0}), model.value("usd", 0.0),
                    model.value("reason", "").empty() ? "" : " (" + model.value("reason", "") + ")"));
}

}  // namespace

std::string text_of(const Best& best) {
  std::string text = fmt::format("#{} at {:.4g} {} during the search", best.id, best.fitness, best.unit);
  if (best.gain) text += fmt::format(", {:+.1f} % in its duel with the best before it", 100.0 * *best.gain);
  std::string beside;
  const auto add = [&](double ratio, const std::string& what) {
    beside += fmt::format("{} {} {}", beside.empty() ? "; side by side in its confirmation" : ",",
                          ratio_words(ratio), what);
  };
  if (best.ratio_to_seed && best.seed_beside)
    add(*best.ratio_to_seed, "the first seed");
  else if (best.ratio_to_seed)
    text += *best.ratio_to_seed == 1.0 ? ", the first seed"
                                       : ", " + ratio_words(*best.ratio_to_seed) + " the first seed there";
  for (const auto& [name, ratio] : best.ratios) add(ratio, name);
  constexpr double kApart = 1.25;  // more than what one measurement is off by
  if (best.confirmed && std::max(best.fitness / *best.confirmed, *best.confirmed / best.fitness) > kApart)
    beside +=
        fmt::format("; {:.4g} {} in its confirmation, when the machine was {}", *best.confirmed, best.unit,
                    *best.confirmed < best.fitness ? "slower or busy" : "faster or less busy");
  return text + beside;
}

std::string text_of(const Outstanding& next) {
  return fmt::format("#{} at {:.4g} {} during the search, confirmation pending", next.id, next.fitness,
                     next.unit);
}

std::string judged_text(const Summary& s) {
  return fmt::format("{}: {}, {}{}", s.evaluations, measured_text(s), rejected_text(s.rejected),
                     s.in_flight == 0 ? ""
                     : s.alive()      ? fmt::format("; {} more in flight", s.in_flight)
                                      : fmt::format("; {} pending until the search is resumed", s.in_flight));
}

std::string measured_text(const Summary& s) {
  if (s.expelled == 0) return fmt::format("{} measured", s.measured);
  return fmt::format("{} measured ({} failed {} confirmation)", s.measured, s.expelled,
                     s.expelled == 1 ? "its" : "their");
}

std::string seed_text(const SeedRatio& seed) {
  return fmt::format(", {} {} first seed", seed.beside ? "confirmed" : "measured", ratio_words(seed.ratio));
}

std::string rate_text(const Summary& s) {
  const double rate = s.evaluations_per_hour;
  return fmt::format("{:.{}f} evaluations per hour, {}", rate, rate < 10.0 ? 1 : 0, kRateOver);
}

std::string rejected_text(const std::map<Stage, std::int64_t>& rejected) {
  std::int64_t all = 0;
  std::string stages;
  for (const auto& [stage, count] : rejected) {
    all += count;
    stages += fmt::format("{}{} {}", stages.empty() ? "" : ", ", name_of(stage), count);
  }
  return fmt::format("{} rejected{}", all, stages.empty() ? "" : " (" + stages + ")");
}

std::string ending_text(const std::string& why, double left_s) {
  return fmt::format("ending{}: {}", left_s > 0.0 ? " in " + duration(left_s) + " at most" : "",
                     plain_line(why, 300));
}

std::string name_of_budget(const std::string& kind) {
  return kind == "wall" ? "search time" : kind == "device_hours" ? "device time" : kind;
}

std::string amount_text(const std::string& budget, double amount) {
  if (budget == "device_hours") return duration(3600.0 * amount);
  if (budget == "wall" || budget == "plateau") return duration(amount);
  return fmt::format("{:.{}f}", amount, budget == "usd" ? 2 : 0);
}

std::string used_text(const Summary& s, const std::string& budget) {
  if (budget == "device_hours" && !s.has_device_time()) return "not recorded";
  return amount_text(budget, s.budget.at(budget).used);
}

std::vector<std::pair<std::string, std::string>> times_of(const Summary& s) {
  std::vector<std::pair<std::string, std::string>> times;
  const auto add = [&](const char* what, const std::optional<double>& at) {
    if (at) times.emplace_back(what, fmt::format("{}, {} ago", local_time(*at), duration(unix_now() - *at)));
  };
  add("began", s.started_at);
  if (s.best) add("best found", s.best->found_at);
  add("ended", s.ended_at);
  return times;
}

void print_summary(const Summary& s, const Output& output) {
  std::string detail = s.stop_reason;
  if (detail.empty() && s.process)
    detail = fmt::format("process {}{}", *s.process,
                         s.heartbeat_age_s ? ", heartbeat " + duration(*s.heartbeat_age_s) + " ago" : "");
  output.line(fmt::format("{}: {} on {}, {}{}", s.run, s.task, s.target, s.state,
                          detail.empty() ? "" : " (" + detail + ")"));
  if (!s.lost.empty()) output.line("  incomplete  " + s.lost);
  output.line("  best        " + (s.best ? text_of(*s.best) : "none yet"));
  if (s.outstanding) output.line("  next        " + text_of(*s.outstanding));
  for (const auto& [what, when] : times_of(s)) output.line(fmt::format("  {:<11} {}", what, when));
  output.line("  evaluated   " + judged_text(s));
  if (s.evaluations_per_hour > 0.0) output.line("  rate        " + rate_text(s));
  if (!s.step.empty()) output.line("  step        " + plain_line(s.step, 300));
  if (s.ending) output.line("  state       " + ending_text(s.ending->why, s.ending->left_s));
  if (s.waiting)
    output.line(fmt::format(
        "  no worker   waiting since {}, {}: {}", duration(s.waiting->for_s),
        s.waiting->next_try_s > 0 ? "next try in " + duration(s.waiting->next_try_s) : "trying now",
        plain_line(s.waiting->why, 300)));
  output.line(fmt::format("  gate        {}, {}{}", counted(s.duels, "duel"),
                          counted(s.promotions, "promotion"),
                          s.challengers == 0 ? ""
                          : s.alive() ? fmt::format("; {} waiting", counted(s.challengers, "challenger"))
                                      : fmt::format("; {} waiting for a duel until the search is resumed",
                                                    counted(s.challengers, "challenger"))));
  if (s.duel)
    output.line(fmt::format("  duel        #{} against #{}{}", s.duel->challenger, s.duel->incumbent,
                            s.duel->progress.empty() ? "" : ", " + plain_line(s.duel->progress, 300)));
  if (s.submissions_waiting > 0)
    output.line(fmt::format("  submitted   {} {}", counted(s.submissions_waiting, "kernel"),
                            s.alive() ? "waiting" : "waiting until the search is resumed"));
  if (!s.gate_advice.empty()) output.line("  advice      " + plain_line(s.gate_advice, 500));
  if (!s.undelivered.empty()) output.line("  trouble     " + plain_line(s.undelivered, 500));
  print_supervisor(s, output);
  print_plan(s, output);
  print_models(s, output);
  for (const auto& [kind, use] : s.budget)
    output.line(fmt::format("  {:<11} {}{}", name_of_budget(kind), used_text(s, kind),
                            use.limit ? " of " + amount_text(kind, *use.limit) : std::string(", no limit")));
  for (const std::string& device : s.devices) output.line("  device      " + device);
  for (const WorkersOf& pool : s.workers)
    if (s.workers.size() > 1 || pool.workers > 1)
      output.line(fmt::format(
          "  workers     {} on {}{}", pool.workers, pool.device,
          pool.measures ? "" : ": not used, since times on different devices cannot be compared"));
}

}  // namespace cultivar
