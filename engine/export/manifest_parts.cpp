// SPDX-License-Identifier: Apache-2.0
#include "engine/export/manifest_parts.hpp"

#include "engine/export/tables.hpp"
#include "evaluators/launchers/index_inputs.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/target/traits.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

json tensors_of(const Task& task, const Workload& workload) {
  json all = json::array();
  const auto values = values_of_whole_inputs(task);
  for (const TensorSpec& tensor : task.tensors) {
    all.push_back({{"name", tensor.name},
                   {"role", tensor.role == Role::input ? "input" : "output"},
                   {"dtype", name_of(task.dtype(tensor, workload))},
                   {"shape", tensor.shape}});
    for (const auto& [name, words] : values)
      if (name == tensor.name) all.back()["values"] = words;
  }
  return all;
}

// Of each parameter, what a call may give it.
json parameters_of(const Task& task) {
  json all = json::object();
  const auto checked = checked_parameters(task);
  for (const Parameter& parameter : task.parameters) {
    json& one = all[parameter.name];
    one["default"] = parameter.fallback ? json(parameter.fallback->text()) : json();
    if (parameter.flag)
      one["from"] = 0, one["to"] = 1;
    else if (const auto found = checked.find(parameter.name); found != checked.end())
      one["from"] = found->second.first, one["to"] = found->second.second;
  }
  return all;
}

json speed_of(const Evaluation& evaluation) {
  json workloads = json::array();
  for (const WorkloadResult& each : evaluation.workloads) {
    std::vector<double> times;
    for (const auto& sample : each.samples) times.push_back(sample.seconds * 1e6);
    json row{{"workload", each.workload},
             {"median_us", each.median_us},
             {"samples", times.size()},
             {"faster_than", each.ratios}};
    if (!times.empty()) {
      const auto bounds = bootstrap_interval(times, median, 0.95, 1);
      row["interval_95_us"] = {bounds.lower, bounds.upper};
    }
    for (const auto& [name, interval] : each.ratio_intervals)
      row["faster_than_interval_95"][name] = {interval.lower, interval.upper};
    workloads.push_back(std::move(row));
  }
  json speed{{"shapes", "listed"}, {"workloads", workloads}};
  if (const auto beside = beside_best_contenders(evaluation))
    speed["beside_the_fastest_contender"] = {{"mean", beside->mean},
                                             {"lowest", beside->lowest},
                                             {"highest", beside->highest},
                                             {"lowest_on", beside->lowest_on}};
  return speed;
}

json kernel_of(const BundledKernel& kernel) {
  const Manifest& manifest = kernel.variant.manifest;
  json built = json::array();
  for (const Specialisation& each : kernel.served) built.push_back(each.suffix);
  json claim{{"individual", kernel.id()},
             {"source", kernel.folder + kernel.parts.values.at("kernel_file")},
             {"requires", manifest.requires_ ? json(manifest.requires_->text()) : json()},
             {"confirmed", kernel.confirmed},
             {"most_elements", kernel.most_elements},
             {"compiled_in", manifest.specialize},
             {"built_in", built},
             {"speed", speed_of(kernel.evaluation)},
             {"license", manifest.license.empty() ? json() : json(manifest.license)}};
  claim["constraints"] = json::array();
  for (const Expression& constraint : manifest.constraints) claim["constraints"].push_back(constraint.text());
  if (kernel.evaluation.checked) claim["checked"] = *kernel.evaluation.checked;
  if (kernel.evaluation.coverage) claim["coverage"] = *kernel.evaluation.coverage;
  for (const Exactness& each : kernel.evaluation.exactness)
    claim["error_ratio"][each.distribution] = each.of_allowed;
  return claim;
}

// Which kernel a call goes to, and what is known of that choice.
json dispatch_of(const KernelPortfolio& portfolio, const DispatchTable& table) {
  const std::vector<IndividualId> kernels = portfolio.kernels();
  json rules = json::array();
  for (const std::size_t leaf : table.leaves()) {
    json order = json::array();
    for (const std::size_t kernel : table.nodes[leaf].order) order.push_back(kernels.at(kernel));
    rules.push_back({{"when", table.conditions_of(leaf)},
                     {"individuals", order},
                     {"learnt_from_shapes", table.nodes[leaf].shapes}});
  }
  json dispatch{{"rules", rules}, {"learnt_from", portfolio.over ? "drawn shapes" : "listed shapes"}};
  if (!portfolio.over) return dispatch;
  const DomainDispatch& over = *portfolio.over;
  dispatch.update({{"domain", over.domain},
                   {"most_bytes", over.most_bytes},
                   {"most_seconds", over.most_seconds},
                   {"learnt_from_shapes", over.learnt},
                   {"device", portfolio.device},
                   {"drawn", figures_of(over, over.drawn)},
                   {"listed", figures_of(over, over.listed)},
                   {"drawn_but_left_out", over.left_out}});
  return dispatch;
}

}  // namespace

json bundle_manifest(const Task& task, const std::vector<BundledKernel>& kernels, const RunFacts& facts,
                     const std::string& identity, const std::map<std::string, std::string>& files,
                     const KernelPortfolio* portfolio, const DispatchTable& table) {
  json claims = json::array(), sums = json::object(), where = json::array();
  for (const BundledKernel& kernel : kernels) claims.push_back(kernel_of(kernel));
  for (const Expression& relation : task.where) where.push_back(relation.text());
  for (const auto& [name, text] : files) sums[name] = sha256_hex(text);
  json devices = json::array();
  for (const json& device : facts.environment.value("devices", json::array()))
    devices.push_back(device.value("description", ""));
  const BundledKernel& best = kernels.front();
  json manifest{
      {"format", 1},
      {"task", task.name},
      {"id", identity},
      {"target", name_of(best.variant.manifest.target)},
      {"architectures", best.parts.architectures},
      {"dtype", name_of(best.workloads.front().dtype)},
      {"tensors", tensors_of(task, best.workloads.front())},
      {"predicate",
       {{"where", where},
        {"at_most", accepted_extents(task)},
        {"parameters", parameters_of(task)},
        {"alignment_bytes", kTensorAlignment},
        {"no_dimension_is_0", true}}},
      {"kernels", claims},
      {"measured_on", devices},
      {"made_with", {{"cultivar", CULTIVAR_VERSION}, {"compiler", facts.environment.value("compiler", "")}}},
      {"license", "Apache-2.0, except the kernels and the oracle"},
      {"sha256", sums}};
  if (portfolio != nullptr && !table.nodes.empty()) manifest["dispatch"] = dispatch_of(*portfolio, table);
  return manifest;
}

}  // namespace cultivar
