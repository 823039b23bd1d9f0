// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/read_workloads.hpp"

#include <fmt/format.h>

#include "evaluators/task/make_workload.hpp"

namespace cultivar {
namespace {

Workload read_one(const Task& task, const YamlNode& node, Dtype dtype, bool dtype_in_name) {
  Bindings given;
  YamlMap map = node.map();
  if (dtype_in_name)  // in a set; the shapes of checks are tried in every dtype
    if (const auto own = map.optional("dtype")) {
      std::vector<std::string> names;
      for (const Dtype known : task.dtypes) names.emplace_back(name_of(known));
      dtype = *dtype_named(own->one_of(names));
    }
  for (const Dimension& d : task.dimensions)
    if (const auto value = map.optional(d.name)) given[d.name] = static_cast<double>(value->integer(1));
  for (const Parameter& p : task.parameters)
    if (const auto value = map.optional(p.name)) given[p.name] = value->number();
  map.finish();
  Expected<Workload> workload = make_workload(task, std::move(given), dtype, dtype_in_name);
  if (!workload) node.fail(workload.error().message);
  return std::move(*workload);
}

}  // namespace

std::vector<Workload> read_workloads(const Task& task, const YamlNode& list, Dtype dtype,
                                     bool dtype_in_name) {
  std::vector<Workload> result;
  for (const YamlNode& node : list.items()) {
    Workload workload = read_one(task, node, dtype, dtype_in_name);
    for (const Workload& other : result)
      if (other.name == workload.name)
        node.fail(fmt::format("the workload {} is listed twice (remove one)", workload.name));
    result.push_back(std::move(workload));
  }
  if (result.empty()) list.fail("must list at least one workload");
  return result;
}

}  // namespace cultivar
