#include "evaluators/task/read_workloads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cultivar {
namespace {

// The value of something that the workload omits: its default, computed from what is known so far.
double fallback_of(const std::string& name, const std::optional<Expression>& fallback, const Bindings& values,
                   const YamlNode& at) {
  if (!fallback) at.fail(fmt::format("'{}' is missing and has no default (give it)", name));
  const Expected<double> value = fallback->evaluate(values);
  if (!value) at.fail(fmt::format("the default of '{}': {}", name, value.error().message));
  return *value;
}

void check_dimension(const std::string& name, double value, const YamlNode& at) {
  if (value < 1 || value != std::floor(value) || value > 0x1p40)
    at.fail(fmt::format("the dimension {} must be a whole number of at least 1, not {}", name, value));
}

void check_parameter(const Parameter& parameter, double value, const YamlNode& at) {
  if (parameter.flag && value != 0.0 && value != 1.0)
    at.fail(fmt::format("the flag {} must be 0 or 1, not {}", parameter.name, value));
  if (!is_floating(parameter.type) && value != round_to(parameter.type, value))
    at.fail(fmt::format("{} does not fit its type {}: {}", parameter.name, name_of(parameter.type), value));
}

// For example "B1_H8_Hkv2_Sq768_D64_causal_f32": values that differ from their defaults, without underscores
// in names.
std::string name_of_workload(const Task& task, const Workload& workload, bool dtype_in_name) {
  std::string name;
  const auto append = [&](const std::string& part) { name += (name.empty() ? "" : "_") + part; };
  const auto compact = [](std::string text) {
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    return text;
  };
  const auto is_default = [&](const std::optional<Expression>& fallback, double value) {
    if (!fallback) return false;
    const Expected<double> usual = fallback->evaluate(workload.values);
    return usual && *usual == value;
  };
  for (const Dimension& d : task.dimensions) {
    const double value = workload.values.at(d.name);
    if (!is_default(d.fallback, value)) append(fmt::format("{}{}", compact(d.name), value));
  }
  for (const Parameter& p : task.parameters) {
    const double value = workload.values.at(p.name);
    if (is_default(p.fallback, value)) continue;
    if (p.flag)
      append(value != 0.0 ? compact(p.name) : "no" + compact(p.name));
    else
      append(fmt::format("{}{}", compact(p.name), value));
  }
  if (dtype_in_name) append(std::string(name_of(workload.dtype)));
  return name;
}

Workload read_one(const Task& task, const YamlNode& node, Dtype dtype, bool dtype_in_name) {
  Workload workload;
  workload.dtype = dtype;
  YamlMap map = node.map();
  for (const Dimension& d : task.dimensions)
    if (const auto value = map.optional(d.name))
      workload.values[d.name] = static_cast<double>(value->integer(1));
  for (const Parameter& p : task.parameters)
    if (const auto value = map.optional(p.name)) workload.values[p.name] = value->number();
  map.finish();
  for (const Dimension& d : task.dimensions) {
    if (!workload.values.contains(d.name))
      workload.values[d.name] = fallback_of(d.name, d.fallback, workload.values, node);
    check_dimension(d.name, workload.values.at(d.name), node);
  }
  for (const Parameter& p : task.parameters) {
    if (!workload.values.contains(p.name))
      workload.values[p.name] = fallback_of(p.name, p.fallback, workload.values, node);
    check_parameter(p, workload.values.at(p.name), node);
  }
  workload.name = name_of_workload(task, workload, dtype_in_name);

  Bindings bindings;
  try {
    bindings = task.bindings(workload);
    for (const TensorSpec& tensor : task.tensors) {
      double bytes = static_cast<double>(size_of(task.dtype(tensor, workload)));
      for (const std::int64_t extent : task.shape(tensor, workload)) bytes *= static_cast<double>(extent);
      if (bytes > 0x1p43)
        node.fail(fmt::format(
            "the tensor {} would have {:.3g} bytes, above the limit of 2^43 (reduce the dimensions)",
            tensor.name, bytes));
    }
    if (!(task.flops(workload) > 0) || !(task.bytes(workload) > 0))
      node.fail("the cost must be positive (correct cost.flops or cost.bytes)");
  } catch (const YamlError&) {
    throw;
  } catch (const InputError& error) {
    node.fail(error.what());
  }
  for (const Expression& relation : task.where) {
    const Expected<double> holds = relation.evaluate(bindings);
    if (!holds) node.fail(holds.error().message);
    if (*holds == 0.0) {
      std::string numbers;
      for (const std::string& name : relation.names())
        numbers += fmt::format(" {}={}", name, bindings.at(name));
      node.fail(fmt::format("violates the task's relation '{}' with{}", relation.text(), numbers));
    }
  }
  return workload;
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
