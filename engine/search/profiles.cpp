#include "engine/search/profiles.hpp"

#include <algorithm>
#include <utility>

#include "engine/config/sampling.hpp"
#include "engine/config/workload_choice.hpp"
#include "evaluators/profile/bottleneck.hpp"

namespace cultivar {

Profiles::Profiles(const Config& config, Recorder& recorder, const Breeding& breeding, ParsedSources& sources,
                   Pipeline& pipeline)
    : config_(config), recorder_(recorder), breeding_(breeding), sources_(sources), pipeline_(pipeline) {}

void Profiles::promoted(IndividualId id) {
  if (config_.evaluation.profile == EvaluationConfig::Profiles::elites) wanted_ = id;
}

void Profiles::start() {
  if (out_ || wanted_ == 0) return;
  const IndividualId id = std::exchange(wanted_, 0);
  if (none_) return;
  const Member member = breeding_.archive().member(id);
  const ParsedVariant variant = sources_.recorded(member.source_id, member.configuration);
  if (!variant) return;
  TakeProfile work;
  // The other workloads differ from the one with the most arithmetic mainly in length.
  work.build = {{*variant}, {breeding_.task().most_expensive(breeding_.workloads())}};
  out_ = true;
  pipeline_.compile(std::make_shared<Job>(std::move(work), id));
}

void Profiles::returned(const JobPtr& job, TakeProfile& work) {
  out_ = false;
  if (work.result) return record(job->id, *work.result);
  auto& compiled = work.build.compiled.front();
  if (!compiled) return;  // it was compiled before: what is wrong shows elsewhere
  work.request.variant = std::move(*compiled);
  work.request.workload = work.build.workloads.front();
  work.request.sampling = sampling_of(config_.evaluation);
  out_ = true;
  pipeline_.measure(job);
}

void Profiles::failed(IndividualId id, const Error& trouble) {
  out_ = false;
  none_ = true;
  recorder_.trouble(id, "no profile: " + trouble.message);
}

void Profiles::record(IndividualId id, const ProfilePartial& found) {
  if (found.rejection) return recorder_.trouble(id, "no profile: " + found.rejection->reason);
  const Report report = explain(found.profile);
  // Later profiles would fail as well and cost as much.
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
                     "profiles hold less than they could: " + found.profile.missing.front());
  });
  none_ = none_ || fruitless;
}

}  // namespace cultivar
