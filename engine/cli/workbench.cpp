#include "engine/cli/workbench.hpp"

#include <fmt/format.h>

#include <charconv>

#include "engine/cli/output.hpp"
#include "engine/cli/step_line.hpp"
#include "engine/cli/trouble.hpp"
#include "evaluators/check/stages.hpp"
#include "evaluators/targets/cpu/device_facts.hpp"
#include "evaluators/targets/cuda/known_devices.hpp"
#include "evaluators/variant/manifest_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace {

ServiceOptions service_options(const House& house, const Task& task, TargetChoice target) {
  ServiceOptions options;
  options.target = target.kind;
  options.device = target.device;
  options.cores = target.cores;
  options.architecture = target.architecture;
  options.programs = house.programs;
  options.cache = house.cache;
  options.task_folder = task.folder;
  return options;
}

// Code runs on the very kind of card that it was compiled for.
TargetChoice for_its_device(TargetChoice target, DeviceService& device, bool runs) {
  if (target.kind == TargetKind::cuda && runs)
    target.architecture =
        architecture_of(static_cast<int>(must(device.info()).facts.at("compute_capability")));
  return target;
}

}  // namespace

TargetChoice parse_target(const House& house, const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  TargetChoice choice;
  if (kind == "cuda") {
    choice.kind = TargetKind::cuda;
  } else if (kind != "cpu") {
    throw InputError(fmt::format("there is no target '{}'{}", text, did_you_mean(kind, {"cpu", "cuda"})));
  }
  if (colon != std::string::npos) {
    const char* const begin = text.data() + colon + 1;
    const char* const end = text.data() + text.size();
    int number = 0;
    const auto [stop, trouble] = std::from_chars(begin, end, number);
    const int least = choice.kind == TargetKind::cpu ? 1 : 0;
    if (trouble != std::errc() || stop != end || number < least)
      throw InputError(fmt::format(
          "'{}' is no target: write cpu:8 for 8 cores, or cuda:0 for the first of the GPUs", text));
    const int there = static_cast<int>(std::thread::hardware_concurrency());
    if (choice.kind == TargetKind::cpu && there > 0 && number > there)
      throw InputError(fmt::format("'{}': this machine has {} core{}; write cpu:{} or less", text, there,
                                   there == 1 ? "" : "s", there));
    (choice.kind == TargetKind::cpu ? choice.cores : choice.device) = number;
  }
  std::error_code ignored;
  if (choice.kind == TargetKind::cuda &&
      !std::filesystem::exists(house.programs / "cultivar-worker-cuda", ignored))
    throw MissingError("this build has no CUDA target: it has no cultivar-worker-cuda; use --target cpu");
  return choice;
}

Facts stand_in_facts(TargetKind target, int cores) {
  if (target == TargetKind::cuda) return known_device("h100")->facts;
  Facts facts = cpu_facts();
  if (cores > 0) facts["num_cores"] = cores;
  return facts;
}

Workbench::Workbench(const House& house, const Task& task, TargetChoice target, bool runs)
    : task_(task),
      target_(target.kind),
      facts_(stand_in_facts(target.kind, target.cores)),
      device_(service_options(house, task, target)),
      compiler_(service_options(house, task, for_its_device(target, device_, runs))),
      on_interrupt_([this] {
        compiler_.interrupt();
        device_.interrupt();
      }) {}

tl::expected<Variant, Evaluation> Workbench::lint(const NamedSource& source) const {
  auto variant = make_variant(source.source, task_, source.configuration);
  const auto fits = variant ? check_target(*variant, target_) : tl::expected<void, ManifestError>();
  if (variant && fits) return std::move(*variant);
  const ManifestError& error = variant ? fits.error() : variant.error();
  return tl::make_unexpected(
      rejection(Stage::lint, error.message, fmt::format("{}: {}", source.origin, error.text())));
}

tl::expected<void, Evaluation> Workbench::check_plans(const NamedSource& source, const Variant& variant,
                                                      const std::vector<Workload>& workloads) const {
  const auto refused = [&](const std::string& why, const char* key) {
    const int line = line_of(variant.source, key);
    return tl::make_unexpected(rejection(
        Stage::lint, why,
        fmt::format("{}: {}", source.origin, line > 0 ? fmt::format("line {}: {}", line, why) : why)));
  };
  for (const Workload& workload : workloads) {
    if (const auto holds = check_constraints(variant, task_, workload, facts_); !holds)
      return refused(holds.error().message, "constraints");
    if (const auto plan = make_plan(variant, task_, workload, facts_); !plan)
      // "launch[0].block[0]: ..." begins with the place in the manifest.
      return refused(plan.error().message,
                     plan.error().message.substr(0, plan.error().message.find(": ")).c_str());
  }
  if (auto illegal = illegal_on_check_shapes(task_, variant, workloads, facts_))
    return tl::make_unexpected(std::move(*illegal));
  return {};
}

tl::expected<Compiled, Evaluation> Workbench::compile(const Variant& variant,
                                                      const std::vector<Workload>& workloads) {
  if (!std::exchange(warned_, true))
    if (const std::string weakness = compiler_.compiler_info().weakness; !weakness.empty())
      notify("Warning: {}.\n", weakness);
  return compiler_.compile(variant, workloads);
}

Compiled Workbench::contender(const NamedSource& source, const std::vector<Workload>& workloads) {
  const auto variant = lint(source);
  if (!variant)
    throw InputError(fmt::format("{} is rejected: {}", source.origin, variant.error().diagnostics));
  const std::vector<Workload> mine = claimed(*variant, task_, workloads);
  if (mine.empty())
    throw InputError(
        fmt::format("{} claims none of the workloads (its manifest requires: {})", source.origin,
                    variant->manifest.requires_ ? variant->manifest.requires_->text() : "nothing"));
  auto compiled = compiler_.compile(*variant, mine);
  if (!compiled)
    throw std::runtime_error(in_words_of(
        source, fmt::format("{} is rejected at {}: {}\n{}", source.origin, name_of(compiled.error().stage),
                            compiled.error().reason, compiled.error().diagnostics)));
  return std::move(*compiled);
}

Compiled Workbench::contender(const NamedContender& named, const std::vector<Workload>& workloads) {
  if (named.source) return contender(*named.source, workloads);
  return library_contender(named.label, named.library, target_);
}

Profile Workbench::profile(const NamedSource& source, const Workload& workload, bool full) {
  StepLine line("compiling " + source.label);
  ProfileRequest request;
  request.variant = contender(source, {workload});
  request.workload = workload;
  request.full = full;
  const ProfilePartial found =
      must(device_.profile(request, [&](const std::string& step) { line.show(source.label + ": " + step); }));
  if (found.rejection)
    throw std::runtime_error(
        in_words_of(source, fmt::format("{} is rejected: {}\n{}", source.origin, found.rejection->reason,
                                        found.rejection->diagnostics)));
  return found.profile;
}

}  // namespace cultivar
