// SPDX-License-Identifier: Apache-2.0
#include "engine/search/announcements.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "evaluators/system/clock.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

constexpr double kBetweenTroubles = 60.0, kBetweenMetrics = 10.0;  // seconds
constexpr double kNearlySpent = 0.9;
constexpr double kOutage = 60.0;  // seconds without a model that are told, and with one that end it

}  // namespace

Announcements::Announcements(const Config& config, std::filesystem::path run_folder,
                             const SearchCallbacks& shown)
    : shown_(shown),
      name_(config.name),
      folder_(run_folder.string()),
      budget_(config.budget),
      notifier_(config.notify) {
  if (!config.metrics.empty()) metrics_ = std::make_unique<MetricsFile>(config.metrics);
}

SearchCallbacks Announcements::callbacks() {
  return {[this](const Event& event) {
            if (shown_.event) shown_.event(event);
            heard(event);
          },
          [this](const Progress& progress) {
            if (shown_.progress) shown_.progress(progress);
            heard(progress);
          }};
}

void Announcements::tell(Occasion occasion, double elapsed_s, const std::string& text, IndividualId id) {
  if (!notifier_.wants(occasion)) return;
  const Progress& p = last_;
  nlohmann::json body{{"run", name_},
                      {"folder", folder_},
                      {"text", fmt::format("{}: {}", name_, plain_line(text, 1000))},
                      {"elapsed_s", elapsed_s},
                      {"at", unix_now()},
                      {"evaluations", p.evaluations},
                      {"measured", p.measured}};
  if (id != 0) body["individual"] = id;
  if (p.best != 0)
    body["best"] = {{"individual", p.best},
                    {"fitness", p.best_fitness},
                    {"unit", p.unit},
                    {"ratio_to_seed", p.to_seed ? p.to_seed->ratio : 0.0}};
  notifier_.tell(occasion, body);
}

void Announcements::heard(const Event& event) {
  if (event.kind == "promoted") {
    tell_promoted();
    promoted_ = event;
  }
  if (event.kind == "supervisor") tell(Occasion::stall, event.elapsed_s, event.text, event.individual);
  if (event.kind == "trouble" || event.kind == "warning") {
    if (event.elapsed_s < next_trouble_s_) {  // a storm of them is one notification a minute
      ++troubles_;
      return;
    }
    next_trouble_s_ = event.elapsed_s + kBetweenTroubles;
    const int others = std::exchange(troubles_, 0);
    tell(Occasion::trouble, event.elapsed_s,
         event.text + (others == 0 ? "" : fmt::format(" (and {} more since the last notification)", others)),
         event.individual);
  }
}

std::vector<Announcements::Use> Announcements::uses() const {
  const Progress& p = last_;
  std::vector<Use> all{
      {"wall", p.elapsed_s, budget_.wall_s},
      {"evaluations", static_cast<double>(p.evaluations), static_cast<double>(budget_.evaluations)},
      {"device_hours", p.device_s / 3600.0, budget_.device_s / 3600.0},
      {"plateau", p.elapsed_s - p.promoted_s, budget_.plateau_s}};
  if (p.questions) {
    all.push_back({"usd", p.questions->usd, budget_.models.usd.value_or(0.0)});
    all.push_back({"tokens", static_cast<double>(p.questions->tokens),
                   static_cast<double>(budget_.models.tokens.value_or(0))});
  }
  return all;
}

void Announcements::tell_promoted() {
  if (const auto event = std::exchange(promoted_, std::nullopt))
    tell(Occasion::best, event->elapsed_s, event->text, event->individual);
}

void Announcements::watch_budgets() {
  const Progress& progress = last_;
  const auto watch = [&](const char* kind, double used, double limit) {
    if (limit <= 0.0 || used < kNearlySpent * limit || std::exchange(nearly_spent_[kind], true)) return;
    tell(Occasion::budget, progress.elapsed_s,
         fmt::format("{:.0f} % of the budget `{}` is used", 100.0 * used / limit, kind), 0);
  };
  for (const Use& use : uses()) watch(use.kind, use.used, use.limit);
}

void Announcements::watch_models() {
  if (!last_.questions) return;
  const double now = last_.elapsed_s;
  const std::string& paused = last_.questions->paused;
  // Between two tries a model is not known to be away.
  if (!paused.empty())
    paused_last_s_ = now;
  else if (now - paused_last_s_ >= kOutage)
    paused_since_s_.reset(), paused_told_ = false;
  if (paused.empty()) return;
  if (!paused_since_s_) paused_since_s_ = now;
  if (now - *paused_since_s_ < kOutage || std::exchange(paused_told_, true)) return;
  tell(Occasion::trouble, now, fmt::format("for {:.0f} s {}", now - *paused_since_s_, paused), 0);
}

void Announcements::heard(const Progress& progress) {
  last_ = progress;
  if (promoted_ && last_.best == promoted_->individual) tell_promoted();
  watch_budgets();
  watch_models();
  tell_troubles(progress.elapsed_s);
  if (metrics_ && progress.elapsed_s >= next_metrics_s_) {
    next_metrics_s_ = progress.elapsed_s + kBetweenMetrics;
    write_metrics("running");
  }
}

void Announcements::tell_troubles(double elapsed_s) {
  if (!shown_.event) return;
  for (const std::string& text : notifier_.troubles()) shown_.event({elapsed_s, "warning", text, 0});
  if (!metrics_) return;
  if (const std::string text = metrics_->trouble(); !text.empty())
    shown_.event({elapsed_s, "warning", text, 0});
}

void Announcements::write_metrics(const std::string& state) {
  const Progress& p = last_;
  std::vector<Metric> all;
  const auto add = [&](const char* name, const char* help, Metric::Kind kind, double value,
                       std::map<std::string, std::string> labels = {}) {
    labels["run"] = name_;
    all.push_back({std::string("cultivar_") + name, help, kind, std::move(labels), value});
  };
  using enum Metric::Kind;
  for (const char* each : {"running", "stopped", "finished", "failed"})
    add("state", "1 for the state of the search.", gauge, state == each ? 1.0 : 0.0, {{"state", each}});
  add("heartbeat_timestamp_seconds", "When this file was written.", gauge, unix_now());
  add("elapsed_seconds_total", "Search time over all sessions.", counter, p.elapsed_s);
  add("device_seconds_total", "Device time over all sessions.", counter, p.device_s);
  add("evaluations_total", "Evaluated individuals.", counter, static_cast<double>(p.evaluations));
  add("measured_total", "Measured individuals.", counter, static_cast<double>(p.measured));
  for (const auto& [stage, count] : p.rejected)
    add("rejected_total", "Rejected individuals by stage.", counter, static_cast<double>(count),
        {{"stage", std::string(name_of(stage))}});
  add("in_flight", "Individuals being compiled, checked or measured.", gauge,
      static_cast<double>(p.in_flight.size()));
  add("challengers", "Kernels whose duel with the best is pending.", gauge,
      static_cast<double>(p.challengers));
  add("waiting_for_workers", "1 while the search waits for workers, some or all.", gauge,
      p.waiting.empty() ? 0.0 : 1.0);
  add("best_individual", "The number of the best kernel; 0: none yet.", gauge, static_cast<double>(p.best));
  if (p.best != 0) {
    add("best_fitness", "The fitness of the best kernel.", gauge, p.best_fitness, {{"unit", p.unit}});
    if (p.to_seed)
      add("best_ratio_to_seed", "The speed of the best kernel over that of the first seed.", gauge,
          p.to_seed->ratio);
  }
  if (p.questions) {
    add("open_questions", "Open questions to language models.", gauge, p.questions->open);
    add("usd_total", "Spent on language models.", counter, p.questions->usd);
    add("tokens_total", "Tokens of language models.", counter, static_cast<double>(p.questions->tokens));
  }
  for (const Use& use : uses())
    add("budget_used", "What is used of each budget: hours, seconds, USD or numbers.", gauge, use.used,
        {{"kind", use.kind}});
  for (const Use& use : uses())
    if (use.limit > 0.0)
      add("budget_limit", "The limit of each budget that has one, in the unit of budget_used.", gauge,
          use.limit, {{"kind", use.kind}});
  metrics_->put(prometheus_text(all));
}

// What has happened since the last progress.
void Announcements::show(const Summary& summary) {
  last_.elapsed_s = summary.elapsed_s;
  last_.evaluations = summary.evaluations;
  last_.measured = summary.measured;
  last_.rejected = summary.rejected;
  last_.in_flight.clear();
  last_.challengers = summary.challengers;
  last_.waiting.clear();
  last_.device_s = 3600.0 * summary.budget.at("device_hours").used;
  if (const auto plateau = summary.budget.find("plateau"); plateau != summary.budget.end())
    last_.promoted_s = summary.elapsed_s - plateau->second.used;
  if (summary.best) {
    last_.best = summary.best->id;
    last_.best_fitness = summary.best->fitness;
    last_.unit = summary.best->unit;
    if (const auto ratio = summary.best->ratio_to_seed)
      last_.to_seed = SeedRatio{*ratio, summary.best->seed_beside};
  }
}

std::vector<std::string> Announcements::ended(const std::string& stop, const Summary& summary) {
  if (!summary.budget.empty()) show(summary);
  tell_promoted();
  watch_budgets();
  if (troubles_ > 0)
    tell(Occasion::trouble, summary.elapsed_s,
         fmt::format("{} more trouble{} since the last notification", troubles_, troubles_ == 1 ? "" : "s"),
         0);
  // Trouble that could not be recorded either, such as a full disk.
  if (summary.state == "failed") tell(Occasion::trouble, summary.elapsed_s, summary.stop_reason, 0);
  if (metrics_) write_metrics(summary.state);
  // These two are in the reason.
  const std::string kind = stop == "interrupted" || stop == "failed" ? "" : stop + ": ";
  tell(Occasion::end, summary.elapsed_s, fmt::format("{} ({}{})", summary.state, kind, summary.stop_reason),
       last_.best);
  return notifier_.farewell();
}

}  // namespace cultivar
