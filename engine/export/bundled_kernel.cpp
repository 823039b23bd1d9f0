// SPDX-License-Identifier: Apache-2.0
#include "engine/export/bundled_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/variant/source_files.hpp"
#include "evaluators/worker/services.hpp"

namespace cultivar {
namespace {

// A kernel that needs more specializations is in effect compiled for every size.
constexpr std::size_t kMostOtherSpecialisations = 8;

// The workloads that the run timed or confirmed on and the variant claims, limited to the dtype of the first
// one, because a launcher's arguments are typed; plus one for each further specialization that the checks
// covered, without the optional parameters that none of those workloads uses.
std::vector<Workload> served_workloads(const Task& task, const Config& config, const Variant& variant) {
  std::vector<Workload> result;
  for (const auto& set : {config.workloads, config.holdout}) {
    const auto* found = task.workloads(set);
    if (!found) continue;
    for (const auto& workload : found->workloads) {
      const auto same = [&](const Workload& w) { return w.name == workload.name; };
      if (claims(variant, task, workload) && std::none_of(result.begin(), result.end(), same) &&
          (result.empty() || result.front().dtype == workload.dtype))
        result.push_back(workload);
    }
  }
  if (result.empty()) return result;
  std::set<std::vector<std::string>> known;
  for (const auto& workload : result) known.insert(macros(variant, task, workload));
  const auto is_off = [](const Parameter& p, const Workload& w) {
    return p.fallback->evaluate(w.values) == w.values.at(p.name);
  };
  const auto is_wanted = [&](const Workload& shape) {
    return shape.dtype == result.front().dtype &&
           std::all_of(task.parameters.begin(), task.parameters.end(), [&](const Parameter& p) {
             return !p.optional || is_off(p, shape) ||
                    !std::all_of(result.begin(), result.end(),
                                 [&](const Workload& served) { return is_off(p, served); });
           });
  };
  std::vector<Workload> others;
  for (const auto& shape : every_claimed_shape(task, variant))
    if (is_wanted(shape) && known.insert(macros(variant, task, shape)).second) others.push_back(shape);
  if (others.size() <= kMostOtherSpecialisations) result.insert(result.end(), others.begin(), others.end());
  return result;
}

}  // namespace

nlohmann::json BundledKernel::configuration() const {
  nlohmann::json values = nlohmann::json::object();
  for (const auto& [name, value] : variant.configuration)
    std::visit([&values, &key = name](const auto& v) { values[key] = v; }, value);
  return values;
}

std::vector<std::string> BundledKernel::source_files() const {
  std::vector<std::string> all{folder + parts.values.at("kernel_file")};
  const std::string source = with_own_defaults(variant);
  for (const HeaderFile& header : split_source(source).headers)
    all.push_back(folder + std::string(header.name));
  return all;
}

std::map<std::string, std::string> BundledKernel::files() const {
  std::map<std::string, std::string> all;
  for (const auto& [name, text] : parts.files) all[folder + name] = text;
  const std::string source = with_own_defaults(variant);
  const SourceFiles sources = split_source(source);
  all[folder + parts.values.at("kernel_file")] = std::string(sources.main);
  for (const HeaderFile& header : sources.headers) all[folder + std::string(header.name)] = header.text;
  return all;
}

Expected<BundledKernel> bundled_kernel(const Record& record, const Task& task, const Config& config,
                                       IndividualId id, const Evaluation* confirmation, std::string folder) {
  const auto row = record.individual(id);
  if (!row) return failure("export", fmt::format("the run holds no individual {}", id));
  auto confirmed = record.confirmation(id);
  if (!confirmed && confirmation != nullptr) confirmed = *confirmation;
  const auto evaluation = confirmed ? confirmed : record.evaluation(id);
  if (confirmed && !confirmed->measured())
    return failure("export",
                   fmt::format("individual {} failed confirmation (at {}: {}), so it cannot be exported; "
                               "choose another one with --id",
                               id, name_of(confirmed->stage), confirmed->reason));
  if (!evaluation || !evaluation->measured())
    return failure("export",
                   fmt::format("individual {} was not measured ({}), so it cannot be exported{}", id,
                               row->reason.empty() ? "not evaluated yet" : row->reason,
                               row->individual.duplicate_of != 0
                                   ? fmt::format("; export individual {} (--id {})",
                                                 row->individual.duplicate_of, row->individual.duplicate_of)
                                   : ""));

  auto variant = make_variant(record.source(id), task, row->individual.configuration);
  if (!variant)
    return failure("export",
                   "the recorded source is not a valid variant in this version: " + variant.error().message);
  const auto of_file = make_variant(with_listed_order(with_own_defaults(*variant)), task);
  const std::string file_identity = short_identity(of_file ? *of_file : *variant);
  BundledKernel kernel{*row, *evaluation, confirmed.has_value(), std::move(*variant), file_identity,
                       {},   {},          std::move(folder)};
  kernel.workloads = served_workloads(task, config, kernel.variant);
  const auto measured = record.evaluation(id);
  if (kernel.workloads.empty()) return failure("export", "the variant claims no workload of the run");
  kernel.most_elements = most_elements(
      task, kernel.workloads.front(),
      std::max(measured ? measured->largest_elements : 0, confirmed ? confirmed->largest_elements : 0));
  return kernel;
}

Expected<TargetParts> target_parts(const LauncherInput& input, const std::vector<Specialisation>& served,
                                   const Runtime& runtime, const std::string& python,
                                   std::vector<std::string> architectures) {
  const Target target = input.variant.manifest.target;
  const auto compile = [&](const std::string& architecture) -> Expected<MachineCode> {
    ServiceOptions options;
    options.target = target;
    options.programs = runtime.programs;
    options.cache = runtime.cache;
    options.task_folder = input.task.folder;
    options.architecture = architecture;
    options.python = python;
    options.compile_workers = 2;
    CompileService service(options);
    std::vector<Workload> workloads = input.workloads;
    workloads.insert(workloads.end(), input.covered.begin(), input.covered.end());
    const auto compiled = service.compile(input.variant, workloads);
    if (!compiled)
      return failure(
          "export",
          fmt::format(
              "the kernel does not compile for {} (some instructions, such as wgmma of sm_90a, exist on one "
              "generation only; choose another with --arch): {}\n{}",
              architecture, compiled.error().reason, compiled.error().diagnostics));
    const std::string identity =
        service.compiler_info(input.variant.manifest.language).identity;  // "NVRTC 13.0 sm_90a ..."
    MachineCode made{{}, identity.substr(0, identity.find(' ', identity.find(' ') + 1)), {}};
    for (const Specialisation& each : served) {
      const Binary& binary = *compiled->binary(each.macros);
      auto bytes = read_file(binary.path);
      if (!bytes) return tl::make_unexpected(bytes.error());
      made.chosen.push_back(binary.chosen);
      made.code.push_back(std::move(*bytes));
    }
    return made;
  };
  return target->exporter({input, served, std::move(architectures), compile});
}

}  // namespace cultivar
