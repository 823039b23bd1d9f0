// SPDX-License-Identifier: Apache-2.0
#include "engine/search/profiles.hpp"

#include <algorithm>
#include <utility>

#include "engine/config/config.hpp"
#include "engine/store/recorded_run.hpp"
#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/timing/roofline.hpp"

namespace cultivar {

Profiles::Profiles(const Config& config, Recorder& recorder, const Breeding& breeding, ParsedSources& sources,
                   Pipeline& pipeline)
    : config_(config), recorder_(recorder), breeding_(breeding), sources_(sources), pipeline_(pipeline) {}

void Profiles::measured_first(IndividualId id) {
  if (first_ != 0 || config_.evaluation.profile != EvaluationConfig::Profiles::elites) return;
  first_ = id;
  request(id);
}

void Profiles::request(IndividualId id) {
  if (config_.evaluation.profile != EvaluationConfig::Profiles::elites || id == last_) return;
  last_ = wanted_ = id;
  fittest_ = std::max(fittest_, breeding_.archive().fitness(id));
}

void Profiles::measured(IndividualId id) {
  constexpr double kClearly = 1.05;
  const Archive& archive = breeding_.archive();
  const IndividualId incumbent = breeding_.incumbent();
  if (incumbent == 0) return;
  if (archive.fitness(id) > kClearly * std::max(fittest_, archive.fitness(incumbent))) request(id);
}

void Profiles::start() {
  if (in_flight_ || wanted_ == 0) return;
  const IndividualId id = std::exchange(wanted_, 0);
  const ParsedVariant variant = sources_.recorded(breeding_.archive().member(id));
  if (disabled_ || !variant) {
    first_done_ = true;
    return;
  }
  TakeProfile work;
  work.build = {{*variant}, {workload_of(id)}};
  in_flight_ = true;
  pipeline_.compile(std::make_shared<Job>(std::move(work), id));
}

// One workload is enough: the most expensive, from which the others differ mostly in size. Where that one is
// near the device's peak, its profile would say no more than that, so the one with the most room is taken.
const Workload& Profiles::workload_of(IndividualId id) const {
  constexpr double kNear = 0.85, kRoom = 0.75;  // shares of the peak
  const std::vector<Workload>& all = breeding_.workloads();
  const Workload& largest = breeding_.task().most_expensive(all);
  const std::optional<Evaluation> evaluation = recorder_.record().evaluation(id);
  const auto devices = recorder_.record().facts().environment.value("devices", nlohmann::json::array());
  if (!evaluation || devices.empty()) return largest;
  const Ceilings ceilings = ceilings_in(devices.front());
  const Workload* farthest = nullptr;
  double least = kRoom;
  for (const Workload& workload : all)
    for (const WorkloadResult& result : evaluation->workloads) {
      if (result.workload != workload.name || !(result.median_us > 0.0)) continue;
      const double share =
          1e6 * least_run_seconds(breeding_.task(), workload, ceilings, breeding_.facts(), config_.target) /
          result.median_us;
      if (&workload == &largest && share < kNear) return largest;
      if (share > 0.0 && share < least) least = share, farthest = &workload;
    }
  return farthest ? *farthest : largest;
}

void Profiles::returned(const JobPtr& job, TakeProfile& work) {
  in_flight_ = false;
  auto& compiled = work.build.compiled.front();
  first_done_ = first_done_ || work.result || !compiled;
  if (work.result) return record(job->id, *work.result);
  if (!compiled) return;  // it compiled before, so other jobs report the cause too
  work.request.variant = std::move(*compiled);
  work.request.workload = work.build.workloads.front();
  work.request.sampling = sampling_of(config_.evaluation);
  in_flight_ = true;
  pipeline_.measure(job);
}

void Profiles::failed(IndividualId id, const Error& trouble) {
  lost();
  disabled_ = true;
  recorder_.trouble(id, "no profile: " + trouble.message);
}

void Profiles::record(IndividualId id, const ProfilePartial& found) {
  if (found.rejection) return recorder_.trouble(id, "no profile: " + found.rejection->reason);
  const Report report = explain(found.profile);
  // Without counters and samples, further profiles would cost as much and show no more.
  const bool fruitless = config_.target->instruments && !found.profile.missing.empty() &&
                         std::ranges::none_of(found.profile.kernels, [](const KernelProfile& k) {
                           return !k.counters.empty() || k.samples > 0;
                         });
  recorder_.step([&](Step& step) {
    step.profile(id, found.profile);
    recorder_.tell(
        step, "profiled", id,
        report.findings.empty() ? report.headline : report.headline + "; " + report.findings.front().words);
    if (fruitless)
      recorder_.tell(step, "trouble", id,
                     "profiles are incomplete, so no more are made: " + found.profile.missing.front());
  });
  disabled_ = disabled_ || fruitless;
}

}  // namespace cultivar
