// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/workbench.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "engine/cli/config_checks.hpp"
#include "engine/cli/output.hpp"
#include "evaluators/judge/claims.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/variant/manifest_text.hpp"

namespace cultivar {
namespace {

ServiceOptions service_options(const InstallationPaths& installation, const Task& task, TargetChoice target) {
  ServiceOptions options;
  options.target = target.kind;
  options.device = target.device;
  options.cores = target.cores;
  options.architecture = target.architecture;
  options.python = target.python;
  options.prepare_deadline_s = target.prepare_deadline_s;
  options.programs = installation.programs;
  options.cache = installation.cache;
  options.task_folder = task.folder;
  return options;
}

// Code that runs is compiled for the architecture of the GPU that runs it.
TargetChoice for_its_device(TargetChoice target, DeviceService& device, bool runs) {
  if (target.kind->architectures == nullptr || !runs) return target;
  StepLine line("starting the worker");
  target.architecture = architecture_of(
      target.kind, must(device.info([&](const std::string& step) { line.show(step); })).facts);
  return target;
}

// "cpu:8 for 8 cores, or cuda:0 for the first of the GPUs"
std::string numbered_targets() {
  std::vector<std::string> all;
  for (const Target target : targets())
    all.push_back(target->on_host
                      ? fmt::format("{}:8 for 8 cores", name_of(target))
                      : fmt::format("{}:0 for the first of the {}s", name_of(target), target->device));
  return fmt::format("{}", fmt::join(all, ", or "));
}

}  // namespace

std::string targets_in_help() {
  std::string all;
  for (std::size_t t = 0; t < targets().size(); ++t)
    all += fmt::format("{}{}[:{}]",
                       t == 0                      ? ""
                       : t + 1 == targets().size() ? " or "
                                                   : ", ",
                       name_of(targets()[t]), targets()[t]->on_host ? "CORES" : "N");
  return all;
}

std::string targets_with_architectures() {
  std::vector<std::string> names;
  for (const Target target : targets())
    if (target->architectures != nullptr) names.push_back(name_of(target));
  return fmt::format("{}", fmt::join(names, " or "));
}

TargetChoice parse_target(const InstallationPaths& installation, const std::string& text) {
  const std::size_t colon = text.find(':');
  TargetChoice choice;
  choice.kind = find_target(text.substr(0, colon));
  if (choice.kind == nullptr)
    throw InputError(
        fmt::format("there is no target '{}'{}", text, known_targets_beside(text.substr(0, colon))));
  if (colon != std::string::npos) {
    const char* const begin = text.data() + colon + 1;
    const char* const end = text.data() + text.size();
    int number = 0;
    const auto [stop, trouble] = std::from_chars(begin, end, number);
    if (trouble != std::errc() || stop != end || number < (choice.kind->on_host ? 1 : 0))
      throw InputError(fmt::format("'{}' is not a target: write {}", text, numbered_targets()));
    const int there = static_cast<int>(std::thread::hardware_concurrency());
    if (choice.kind->on_host && there > 0 && number > there)
      throw InputError(fmt::format("'{}': this machine has {} core{}; write {}:{} or less", text, there,
                                   there == 1 ? "" : "s", name_of(choice.kind), there));
    (choice.kind->on_host ? choice.cores : choice.device) = number;
  }
  std::error_code ignored;
  if (const std::string program = worker_program(choice.kind);
      !choice.kind->on_host && !std::filesystem::exists(installation.programs / program, ignored))
    throw MissingError(fmt::format("this build has no {} target: {} is missing; use --target {}",
                                   name_of(choice.kind), program, name_of(usual_target())));
  return choice;
}

namespace {
// A cache that cannot be written says nothing about the kernel.
tl::expected<Compiled, Evaluation> not_the_caches(tl::expected<Compiled, Evaluation> compiled) {
  if (!compiled && compiled.error().host_fault == HostFault::cache_unwritable)
    throw std::runtime_error(fmt::format("{}: {}. CULTIVAR_CACHE names another folder for it",
                                         compiled.error().reason, compiled.error().diagnostics));
  return compiled;
}
}  // namespace

Workbench::Workbench(const InstallationPaths& installation, const Task& task, TargetChoice target, bool runs)
    : task_(task),
      target_(target.kind),
      facts_(target.kind->stand_in_facts(target.cores)),
      device_((require_limits(), service_options(installation, task, target))),
      compiler_(service_options(installation, task, for_its_device(target, device_, runs))),
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
  if (auto wrong = claim_trouble(task_, variant, workloads, secret_seed()))
    return tl::make_unexpected(std::move(*wrong));
  if (const auto why = illegal_on(workloads, variant, task_, facts_))
    return tl::make_unexpected(
        rejection(Stage::lint, why->message, fmt::format("{}: {}", source.origin, why->text())));
  if (auto illegal = illegal_on_check_shapes(task_, variant, facts_))
    return tl::make_unexpected(std::move(*illegal));
  return {};
}

tl::expected<Compiled, Evaluation> Workbench::compile(const Variant& variant,
                                                      const std::vector<Workload>& workloads,
                                                      Breadth breadth) {
  if (!std::exchange(warned_, true))
    if (const std::string weakness = compiler_.compiler_info().weakness; !weakness.empty())
      notify("Warning: {}.\n", weakness);
  return not_the_caches(compiler_.compile(variant, workloads, breadth));
}

void raise_rejection(const NamedSource& source, const Evaluation& why) {
  if (why.stage == Stage::lint)
    throw InputError(fmt::format("{} is rejected: {}", source.origin, why.diagnostics));
  throw std::runtime_error(in_words_of(source, fmt::format("{} is rejected at {}: {}\n{}", source.origin,
                                                           name_of(why.stage), why.reason, why.diagnostics)));
}

tl::expected<Compiled, Evaluation> Workbench::contender_or_rejection(const NamedSource& source,
                                                                     const std::vector<Workload>& workloads) {
  const auto variant = lint(source);
  if (!variant) return tl::make_unexpected(variant.error());
  const std::vector<Workload> mine = claimed(*variant, task_, workloads);
  if (mine.empty())
    return tl::make_unexpected(rejection(
        Stage::lint, "claims no workload of this set",
        fmt::format("it claims no workload of this set (its manifest requires: {}); choose another set with "
                    "--workloads",
                    variant->manifest.requires_ ? variant->manifest.requires_->text() : "nothing")));
  return not_the_caches(compiler_.compile(*variant, mine));
}

Compiled Workbench::contender(const NamedSource& source, const std::vector<Workload>& workloads) {
  auto compiled = contender_or_rejection(source, workloads);
  if (!compiled) raise_rejection(source, compiled.error());
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
