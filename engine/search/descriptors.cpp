// SPDX-License-Identifier: Apache-2.0
#include "engine/search/descriptors.hpp"

#include <algorithm>
namespace cultivar {

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
