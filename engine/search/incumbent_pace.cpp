// SPDX-License-Identifier: Apache-2.0
#include "engine/search/incumbent_pace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/statistics/quantiles.hpp"

namespace cultivar {

IncumbentPace::IncumbentPace(const Config& config, Recorder& recorder, Breeding& breeding,
                             ParsedSources& sources, Pipeline& pipeline)
    : config_(config),
      recorder_(recorder),
      breeding_(breeding),
      sources_(sources),
      pipeline_(pipeline),
      unknown_(breeding.incumbent() != 0),
      // An idle card warms up within minutes and is then some percent slower, so the first interval is short.
      gap_s_(std::min(60.0, config.evaluation.pace_every_s)),
      due_(summary_of(recorder.record()).elapsed_s + (unknown_ ? 0.0 : gap_s_)) {
  if (const IndividualId incumbent = breeding.incumbent())
    if (const auto evaluation = recorder.record().evaluation(incumbent)) set_medians(*evaluation);
}

void IncumbentPace::set_medians(const Evaluation& evaluation) {
  medians_us_.clear();
  for (const WorkloadResult& workload : evaluation.workloads)
    medians_us_[workload.workload] = workload.median_us;
}

void IncumbentPace::start_if_due() {
  const IndividualId incumbent = breeding_.incumbent();
  if (in_flight_ || incumbent == 0 || recorder_.elapsed() < due_) return;
  due_ = recorder_.elapsed() + gap_s_;
  if (!unconfirmed_) gap_s_ = std::min(2.0 * gap_s_, config_.evaluation.pace_every_s);
  Pace work;
  work.build = {{sources_.recorded(breeding_.archive().member(incumbent)).value()}, breeding_.workloads()};
  in_flight_ = true;
  pipeline_.compile(std::make_shared<Job>(std::move(work), incumbent));
}

void IncumbentPace::returned(const JobPtr& job, Pace& work) {
  in_flight_ = false;
  if (work.result) return measured({job->id, std::move(*work.result)});
  auto& compiled = work.build.compiled.front();
  if (!compiled) return measured({job->id, compiled.error()});
  work.request.variant = std::move(*compiled);
  work.request.workloads = breeding_.workloads();
  work.request.sampling = sampling_of(config_.evaluation);
  in_flight_ = true;
  pipeline_.measure(job);
}

void IncumbentPace::give_up() {
  unknown_ = false;
  unconfirmed_.reset();
}

void IncumbentPace::beside(const Evaluate& work) {
  if (work.incumbent == 0 || !work.result || !work.result->measured()) return;
  std::vector<double> values;
  for (const WorkloadResult& row : work.result->workloads) {
    if (!(row.incumbent_us > 0.0) || !(row.median_us > 0.0) || !(row.value > 0.0)) return;
    values.push_back(row.value * row.median_us / row.incumbent_us);
  }
  if (values.empty()) return;
  const double fitness = geometric_mean(values);
  const double pace = fitness / breeding_.archive().fitness(work.incumbent);
  if (!(pace > 0.0) || !std::isfinite(pace)) return;  // it was expelled meanwhile
  unknown_ = false;
  unconfirmed_.reset();
  due_ = recorder_.elapsed() + config_.evaluation.pace_every_s;
  breeding_.paced(pace);
  if (work.incumbent == breeding_.incumbent())
    for (const WorkloadResult& row : work.result->workloads) medians_us_[row.workload] = row.incumbent_us;
  recorder_.step([&](Step& step) { step.pace(work.incumbent, fitness, pace); });
}

double IncumbentPace::pace_of(const Reading& reading) const {
  return reading.evaluation.fitness / breeding_.archive().fitness(reading.id);
}

double IncumbentPace::jump_of(const Reading& reading) const {
  return std::abs(std::log(pace_of(reading) / breeding_.pace()));
}

void IncumbentPace::measured(Reading again) {
  const auto before = std::exchange(unconfirmed_, std::nullopt);
  if (!again.evaluation.measured()) {
    unknown_ = false;
    return recorder_.trouble(again.id, fmt::format("the incumbent could not be measured again, {}: {}",
                                                   name_of(again.evaluation.stage), again.evaluation.reason));
  }
  // A pace applies until the next measurement, and one measurement may have been disturbed: a change of more
  // than 5 % counts only as far as a second measurement agrees. Of the two, the smaller change counts.
  if (!before && jump_of(again) > 0.05) {
    unconfirmed_ = std::move(again);
    due_ = recorder_.elapsed();
    return;
  }
  unknown_ = false;
  const Reading& counted = before && jump_of(*before) < jump_of(again) ? *before : again;
  const Evaluation& now = counted.evaluation;
  const double pace = pace_of(counted);
  const bool is_incumbent = counted.id == breeding_.incumbent();
  breeding_.paced(pace);
  if (is_incumbent)
    for (const WorkloadResult& workload : now.workloads) medians_us_[workload.workload] = workload.median_us;
  recorder_.step([&](Step& step) {
    step.pace(counted.id, now.fitness, pace);
    recorder_.tell(
        step, "pace", counted.id,
        fmt::format(
            "the {} incumbent now reaches {:.4g} {}, {:.4g} when it was first measured; new variants are "
            "compared at its current pace",
            is_incumbent ? "current" : "previous", now.fitness, now.unit,
            recorder_.record().individual(counted.id)->individual.fitness));
  });
}

}  // namespace cultivar
