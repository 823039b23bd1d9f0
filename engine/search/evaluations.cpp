// SPDX-License-Identifier: Apache-2.0
#include "engine/search/evaluations.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/config.hpp"
#include "engine/store/summary.hpp"
#include "operators/registry.hpp"

namespace cultivar {

Evaluations::Evaluations(const Config& config, Recorder& recorder, Breeding& breeding, ParsedSources& sources,
                         Pipeline& pipeline, SecondTries& second_tries, HostFaults& faults)
    : config_(config),
      recorder_(recorder),
      breeding_(breeding),
      sources_(sources),
      pipeline_(pipeline),
      second_tries_(second_tries),
      faults_(faults),
      rate_(rate_of(recorder.record())) {
  const Record& record = recorder.record();
  const Summary so_far = summary_of(record);
  measured_ = so_far.measured;
  rejected_ = so_far.rejected;
  if (const auto seed = record.first_seed()) first_seed_ = *seed;
  unit_ = record.facts().unit_of_fitness;
  for (const IndividualId id : breeding.archive().in_flight()) pending_.push_back(id);
}

void Evaluations::start_pending() {
  for (std::size_t i = 0; i < pending_.size();) {
    const IndividualId id = pending_[i];
    if (!has_room() && !awaited(id)) {
      ++i;
      continue;
    }
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    reevaluate(id);
  }
}

bool Evaluations::awaited(IndividualId id) const {
  const Member member = breeding_.archive().member(id);
  const OperatorRow* const by = find_operator(member.op);
  return member.origin == Origin::submission || (by != nullptr && by->asks());
}

bool Evaluations::awaits_one_up_to(IndividualId last) const {
  return std::ranges::any_of(breeding_.archive().in_flight(),
                             [&](IndividualId id) { return id <= last && awaited(id); });
}

void Evaluations::reevaluate(IndividualId id) {
  const ParsedVariant variant = sources_.recorded(breeding_.archive().member(id));
  if (variant)
    if (const auto twin = breeding_.twin_by_variant((*variant)->id); repeats(id, twin))
      return judge(id,
                   rejection(Stage::lint, fmt::format("the same source and values as individual {}", *twin),
                             "It was proposed before."),
                   "", *twin);
  start(id, variant);
}

bool Evaluations::repeats(IndividualId id, std::optional<IndividualId> twin) const {
  if (!twin || *twin == id) return false;
  const Archive& archive = breeding_.archive();
  return archive.origin(id) != Origin::submission || archive.state(*twin) != Member::State::rejected ||
         archive.duplicate_of(*twin) != 0;
}

void Evaluations::start(IndividualId id, const ParsedVariant& variant) {
  if (!variant) {
    const std::string reason = variant.error().text();
    return judge(id, rejection(Stage::lint, reason, reason), "", 0);
  }
  if (const auto rejected = lint(**variant)) return judge(id, *rejected, "", 0);
  Evaluate work;
  work.build = {{*variant}, breeding_.workloads()};
  if (awaited(id)) work.priority = Priority::awaited;
  // What else runs on a host changes its speed within seconds, so the best is timed at the same time.
  if (config_.target->on_host && breeding_.incumbent() != 0) {
    work.incumbent = breeding_.incumbent();
    work.build.variants.push_back(sources_.recorded(breeding_.archive().member(work.incumbent)).value());
  }
  ++in_flight_;
  pipeline_.compile(std::make_shared<Job>(std::move(work), id));
}

std::optional<Evaluation> Evaluations::lint(const Variant& variant) const {
  if (const auto fits = check_target(variant, config_.target); !fits)
    return rejection(Stage::lint, fits.error().message, fits.error().text());
  for (const Workload& workload : breeding_.workloads()) {
    if (!claims(variant, breeding_.task(), workload)) {
      const std::string why = fmt::format("does not claim workload {}", workload.name);
      return rejection(
          Stage::lint, why,
          why + ": its `requires` is " +
              (variant.manifest.requires_ ? "\"" + variant.manifest.requires_->text() + "\"" : "empty") +
              ", and a search needs variants that run all of its workloads");
    }
  }
  // Otherwise only its confirmation would find out, after everything else.
  const WorkloadSet* const holdout = breeding_.task().workloads(config_.holdout);
  if (holdout && !std::ranges::all_of(holdout->workloads, [&](const Workload& workload) {
        return claims(variant, breeding_.task(), workload);
      }))
    return rejection(
        Stage::lint, "does not claim a workload of the holdout",
        fmt::format("`requires: \"{}\"` excludes a workload of the holdout, and a kernel that becomes the "
                    "best must run all of them. They are of the same kinds as those that are listed, "
                    "with other sizes, odd ones among them: widen `requires`.\n",
                    variant.manifest.requires_ ? variant.manifest.requires_->text() : ""));
  if (const auto why = illegal_on(breeding_.workloads(), variant, breeding_.task(), breeding_.facts()))
    return rejection(Stage::lint, why->message, why->text());
  return std::nullopt;
}

void Evaluations::returned(const JobPtr& job, Evaluate& work, const Medians& incumbent) {
  --in_flight_;
  if (work.result) return judge(job->id, *work.result, work.kernel, 0);
  auto& compiled = work.build.compiled.front();
  if (!compiled) return judge(job->id, compiled.error(), "", 0);
  std::vector<std::string> codes;
  for (const Binary& binary : compiled->binaries) codes.push_back(binary.machine_code);
  work.kernel =
      kernel_hash(codes, compiled->variant, breeding_.task(), breeding_.workloads(), breeding_.facts());
  if (const auto twin = breeding_.twin_by_machine_code(work.kernel); repeats(job->id, twin))
    return judge(job->id,
                 rejection(Stage::screen, fmt::format("the same kernel as individual {}", *twin),
                           "Its machine code and launch plan are equal; it was not measured again."),
                 work.kernel, *twin);
  breeding_.claim_machine_code(job->id, work.kernel);
  work.request.variant = std::move(*compiled);
  work.request.workloads = breeding_.workloads();
  work.request.sampling = sampling_of(config_.evaluation);
  work.request.incumbent_us = incumbent;
  if (work.build.compiled.size() > 1 && work.build.compiled[1])
    work.request.incumbent = std::move(*work.build.compiled[1]);
  ++in_flight_;
  pipeline_.measure(job);
}

std::map<std::string, double> Evaluations::descriptors_of(IndividualId id,
                                                          const Evaluation& evaluation) const {
  if (!evaluation.measured()) return evaluation.resources.values;
  const ParsedVariant variant = sources_.recorded(breeding_.archive().member(id));
  if (!variant) return evaluation.resources.values;
  return cultivar::descriptors_of(evaluation.resources, **variant, breeding_.task(),
                                  breeding_.task().most_expensive(breeding_.workloads()), breeding_.facts());
}

void Evaluations::judge(IndividualId id, const Evaluation& evaluation, const std::string& kernel,
                        IndividualId duplicate_of) {
  if (evaluation.host_fault &&
      faults_.met(id, Examination::search, evaluation) != HostFaults::Ruling::variants)
    return;  // it stays proposed; HostFaults returns it
  const bool is_seed = breeding_.archive().origin(id) == Origin::seed;
  if (is_seed && second_tries_.grant(id, Examination::search, evaluation)) return enqueue(id);
  Individual individual;
  individual.id = id;
  individual.machine_code = kernel;
  individual.duplicate_of = duplicate_of;
  individual.measured = evaluation.measured();
  individual.fitness = evaluation.measured() ? evaluation.fitness : 0.0;
  for (const Workload& workload : breeding_.workloads())
    for (const WorkloadResult& result : evaluation.workloads)
      if (result.workload == workload.name) individual.workload_values.push_back(result.value);

  const std::map<std::string, double> descriptors = descriptors_of(id, evaluation);
  rate_.ended(recorder_.elapsed());
  const auto migrations = breeding_.judge(id, findings_of(individual, evaluation, descriptors));
  if (individual.measured) {
    ++measured_;
    unit_ = evaluation.unit;
    if ((first_seed_ == 0 || id < first_seed_) && is_seed) first_seed_ = id;
  } else {
    ++rejected_[evaluation.stage];
  }
  recorder_.step([&](Step& step) {
    step.judge(individual, evaluation, descriptors);
    for (const Migration& migration : migrations) step.migrate(migration);
    if (individual.measured)
      recorder_.tell(step, "measured", id, fmt::format("{:.4g} {}", evaluation.fitness, evaluation.unit));
    else
      recorder_.tell(step, "rejected", id,
                     fmt::format("{}: {}", name_of(evaluation.stage), evaluation.reason));
    if (evaluation.worker_lost)
      recorder_.tell(step, "worker", id,
                     "the worker was lost during the evaluation and replaced by a new one");
  });
  if (is_seed && !individual.measured && duplicate_of == 0)
    recorder_.show(
        "warning", id,
        fmt::format("seed {} was rejected ({}): {}",
                    recorder_.record().individual(id)->individual.descent.note, name_of(evaluation.stage),
                    evaluation.stage == Stage::lint ? evaluation.diagnostics : evaluation.reason));
}

bool Evaluations::start_canary() {
  const Archive& archive = breeding_.archive();
  IndividualId known = breeding_.incumbent();
  if (known == 0) known = first_seed_;
  if (known == 0 || archive.state(known) != Member::State::measured || faults_.suspects(known)) return false;
  Canary work;
  work.build = {{sources_.recorded(archive.member(known)).value()}, breeding_.workloads()};
  pipeline_.compile(std::make_shared<Job>(std::move(work), known));
  return true;
}

void Evaluations::returned(const JobPtr& job, Canary& work) {
  auto& compiled = work.build.compiled.front();
  if (work.result || !compiled) {
    const Evaluation& found = work.result ? *work.result : compiled.error();
    recorder_.trouble(
        job->id, fmt::format("measured to see whether this machine is the cause: {}",
                             found.measured() ? std::string("it has no fault")
                                              : fmt::format("{}: {}", name_of(found.stage), found.reason)));
    return faults_.canary_returned(found.measured());
  }
  work.request.variant = std::move(*compiled);
  work.request.workloads = breeding_.workloads();
  work.request.sampling = sampling_of(config_.evaluation);
  pipeline_.measure(job);
}

std::string Evaluations::why_no_seed() const {
  std::string words;
  bool late = false;
  const Record& record = recorder_.record();
  record.each_individual([&](const IndividualRow& row) {
    if (row.individual.descent.origin != Origin::seed) return;
    const IndividualId id = row.individual.id;
    const auto confirmation = row.expelled ? record.confirmation(id) : std::nullopt;
    const bool twice = second_tries_.granted(id, row.expelled ? Examination::confirm : Examination::search);
    words +=
        fmt::format("{}#{} {} ({}: {}{})", words.empty() ? "" : ", ", id, row.individual.descent.note,
                    confirmation ? std::string(name_of(confirmation->stage)) : row.stage,
                    confirmation ? confirmation->reason : row.reason, twice ? ", at the second try" : "");
    late = late || twice;
  });
  return fmt::format(
      "no seed is usable, so no proposals can be made: {}. `cultivar show` gives the details of each, "
      "`cultivar resume --again ID` judges one once more{}",
      words,
      late ? "; a seed that timed out twice needs a quieter machine or a longer evaluation.run_deadline"
           : "");
}

void Evaluations::show(Progress& p) {
  p.evaluations = breeding_.judged();
  p.measured = measured_;
  p.rejected = rejected_;
  p.unit = unit_;
  p.best = breeding_.incumbent();
  if (p.best) p.best_fitness = breeding_.archive().fitness(p.best);
  if (std::exchange(shown_, p.best) != p.best) to_seed_ = ratio_to_seed(recorder_.record(), p.best);
  p.to_seed = to_seed_;
  p.evaluations_per_hour = rate_.per_hour();
}

SecondTries::SecondTries(Recorder& recorder) : recorder_(recorder), granted_(recorder.record().put_off()) {}

bool SecondTries::grant(IndividualId id, Examination of, const Evaluation& evaluation) {
  if (!evaluation.late || !granted_.emplace(id, of).second) return false;
  recorder_.step([&](Step& step) {
    step.put_off(id, of, evaluation);
    recorder_.tell(step, "trouble", id,
                   fmt::format("{}: {}; it is {} again, because the machine may have been busy",
                               name_of(evaluation.stage), evaluation.reason,
                               of == Examination::search ? "evaluated" : "confirmed"));
  });
  return true;
}

namespace {

double bytes_given(const Plan& plan, const PlannedKernel& kernel) {
  std::vector<bool> given(plan.buffers.size());
  for (const PlannedArgument& argument : kernel.args) {
    if (argument.kind == PlannedArgument::Kind::buffer)
      given.at(static_cast<std::size_t>(argument.index)) = true;
    if (argument.kind == PlannedArgument::Kind::tensor_map)
      given.at(static_cast<std::size_t>(
          plan.tensor_maps.at(static_cast<std::size_t>(argument.index)).buffer)) = true;
  }
  double bytes = 0.0;
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i]) bytes += static_cast<double>(plan.buffers[i].bytes);
  return bytes;
}

}  // namespace

std::vector<std::string> descriptor_names(Target target) {
  std::vector<std::string> names = target->reported;
  names.insert(names.end(), {"launches", "workspace_bytes", "passes"});
  names.insert(names.end(), target->planned.begin(), target->planned.end());
  return names;
}

std::map<std::string, double> descriptors_of(const Resources& resources, const Variant& variant,
                                             const Task& task, const Workload& workload, const Facts& facts) {
  std::map<std::string, double> all = resources.values;
  all.insert(resources.shares.begin(), resources.shares.end());
  const auto plan = make_plan(variant, task, workload, facts);
  if (!plan || plan->kernels.empty()) return all;
  double tensors = 0.0, workspaces = 0.0, given = 0.0;
  for (const PlannedBuffer& buffer : plan->buffers)
    (buffer.use == PlannedBuffer::Use::workspace ? workspaces : tensors) += static_cast<double>(buffer.bytes);
  for (const PlannedKernel& kernel : plan->kernels) given += bytes_given(*plan, kernel);
  all["launches"] = static_cast<double>(plan->kernels.size());
  all["workspace_bytes"] = workspaces;
  if (tensors > 0.0) all["passes"] = given / tensors;
  if (const Target target = variant.manifest.target; target->describe_plan != nullptr)
    all.merge(target->describe_plan(resources, *plan, facts));
  return all;
}

}  // namespace cultivar
