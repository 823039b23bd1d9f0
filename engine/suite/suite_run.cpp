// SPDX-License-Identifier: Apache-2.0
#include "engine/suite/suite_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/export/bundle.hpp"
#include "engine/search/beginning.hpp"
#include "engine/search/model_dialogues.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/store/schema.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

struct Limit {
  const char* kind;
  double most;  // 0: no limit
};

std::vector<Limit> limits_of(const Budget& budget) {
  return {{"wall", budget.wall_s},
          {"evaluations", static_cast<double>(budget.evaluations)},
          {"device_hours", budget.device_s / 3600.0},
          {"plateau", budget.plateau_s},
          {"usd", budget.models.usd.value_or(0.0)},
          {"tokens", static_cast<double>(budget.models.tokens.value_or(0))}};
}

bool same_search(const SuiteTask& task, const RunFacts& facts) {
  std::vector<std::string> workloads;
  for (const Workload& w : task.config.task->workloads(task.config.workloads)->workloads)
    workloads.push_back(w.name);
  return facts.task_name == task.config.task->name && facts.target == name_of(task.config.target) &&
         facts.workloads == workloads;
}

bool has_answers(const Config& config, const RunFolder& folder) {
  std::error_code none;
  for (const ModelConfig& model : config.models)
    if (model.provider == "mailbox")
      for (const auto& file : fs::directory_iterator(fs::path(mail_of(model, folder)) / "answers", none))
        if (file.is_regular_file(none)) return true;
  return false;
}

// What the command gives for all searches of their evaluation, and this one was recorded with otherwise.
std::vector<std::string> other_settings(const SuiteTask& task, const fs::path& folder,
                                        const Installation& installation) {
  std::vector<std::string> others;
  const auto record = Record::open(folder);
  if (!record) return others;
  const RunFacts facts = record->facts();
  const auto with = [&](const std::vector<std::string>& overrides) {
    return to_yaml(recorded_config(facts.config_yaml, RunFolder(folder), overrides, installation));
  };
  const std::string recorded = with({});
  for (const std::string& each : task.given)
    if (changes_evaluation(each) && with({each}) != recorded) others.push_back(each);
  return others;
}

std::string export_trouble(const fs::path& folder, const Runtime& runtime) {
  const auto record = Record::open(folder);
  if (!record) return record.error().text();
  if (!record->best() || target_named(record->facts().target)->exporter == nullptr) return {};
  const auto exported = export_bundle({*record, 0, folder / "best", runtime});
  return exported ? std::string() : "the export failed: " + exported.error().text();
}

// Every exception of it as text.
template <class Work>
std::string trouble_of(const fs::path& folder, const Work& work) try {
  return work();
} catch (const SQLite::Exception& error) {
  return trouble(error, "suite", RunFolder(folder).database()).message;
} catch (const std::exception& error) {
  return error.what();
}

}  // namespace

Expected<SuiteStep> next_step(const SuiteTask& task, const fs::path& folder) {
  const Budget& budget = task.config.budget;
  std::error_code none;
  SuiteStep step{.seconds_left = budget.wall_s};
  if (!fs::exists(RunFolder(folder).database(), none)) return step;
  const std::string why = trouble_of(folder, [&]() -> std::string {
    const auto record = Record::open(folder);
    if (!record) return record.error().text();
    if (!same_search(task, record->facts()))
      return fmt::format(
          "{} holds a search of another task, target or workloads: name another folder with --run-dir",
          folder.string());
    const Summary summary = summary_of(*record);
    bool done = summary.state == "finished";
    for (const auto& [kind, most] : limits_of(budget)) {
      const auto use = summary.budget.find(kind);
      if (use == summary.budget.end() || most <= use->second.limit.value_or(most) || most <= use->second.used)
        continue;
      step.overrides.push_back(fmt::format("budget.{}={}", kind, most));
      done = false;
    }
    const bool waits = summary.best && summary.state == "stopped" &&
                       summary.stop == name_of(Outcome::Stop::letters) && step.overrides.empty() &&
                       !has_answers(task.config, RunFolder(folder));
    step.kind = done ? SuiteStep::Kind::done : waits ? SuiteStep::Kind::waits : SuiteStep::Kind::resume;
    step.seconds_left = done ? 0.0 : std::max(0.0, budget.wall_s - summary.elapsed_s);
    return {};
  });
  if (!why.empty()) return failure("", why);
  return step;
}

SuiteTaskEnd take_step(const SuiteTask& task, const SuiteStep& step, const fs::path& folder,
                       const Runtime& runtime, const SearchCallbacks& callbacks,
                       const std::atomic<bool>& stop) {
  if (step.kind == SuiteStep::Kind::done) return {};
  SuiteTaskEnd end;
  end.trouble = trouble_of(folder, [&]() -> std::string {
    std::vector<std::string> overrides = step.overrides;
    if (step.kind != SuiteStep::Kind::begin)
      std::ranges::copy(other_settings(task, folder, runtime.installation), std::back_inserter(overrides));
    const Expected<Outcome> outcome = step.kind == SuiteStep::Kind::begin
                                          ? begin_search(task.config, folder, runtime, callbacks, stop)
                                          : resume_search(folder, overrides, runtime, callbacks, stop);
    end.interrupted = outcome ? outcome->stop == Outcome::Stop::interrupted
                              : outcome.error().kind == ErrorKind::interrupted;
    end.turn_over = outcome && outcome->stop == Outcome::Stop::turn;
    end.waits_for_letters = outcome && outcome->stop == Outcome::Stop::letters;
    if (end.interrupted || end.turn_over || end.waits_for_letters) return {};
    end.missing = !outcome && outcome.error().kind == ErrorKind::missing;
    if (!outcome) return outcome.error().text();
    if (outcome->stop == Outcome::Stop::failed) return outcome->reason;
    return export_trouble(folder, runtime);
  });
  return end;
}

namespace {

constexpr double kUsualSeconds = 30.0;  // of confirmations of quick workloads

}  // namespace

void SuiteRemaining::begins(double budget_s) {
  skips(budget_s);
  began_closing_s_ = -1.0;
  closing_s_ = 0.0;
}

void SuiteRemaining::skips(double budget_s) {
  searches_s_ = std::max(0.0, searches_s_ - budget_s);
  --searches_;
}

double SuiteRemaining::usual_s() const {
  return (kUsualSeconds + all_closing_s_) / (1 + closed_);  // some have nothing to confirm
}

double SuiteRemaining::seconds(const Progress& progress) {
  const bool spent = progress.wall_limit_s > 0 && progress.elapsed_s >= progress.wall_limit_s;
  if (began_closing_s_ < 0 && (spent || !progress.closing.empty()))
    began_closing_s_ = spent ? progress.wall_limit_s : progress.elapsed_s;
  double own = progress.seconds_left;
  if (began_closing_s_ >= 0) {
    closing_s_ = progress.elapsed_s - began_closing_s_;
    own = -closing_s_;
  }
  // One that takes longer than usual suggests that the others will, too.
  const double each = std::max(usual_s(), closing_s_);
  return searches_s_ + each * searches_ + std::max(0.0, own + each);
}

void SuiteRemaining::ended() {
  if (began_closing_s_ < 0) return;
  all_closing_s_ += closing_s_;
  ++closed_;
}

}  // namespace cultivar
