// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evaluators/task/fill.hpp"

namespace cultivar {

namespace {

// A loaded task's expressions were checked for every workload in its file. A failure therefore comes from a
// workload made elsewhere: a bug or bad input.
double evaluated(const Expression& expression, const Bindings& bindings, const std::string& where) {
  const Expected<double> value = expression.evaluate(bindings);
  if (!value) throw InputError(fmt::format("{}: {}", where, value.error().message));
  return *value;
}

tl::unexpected<Error> illegal(std::string message) {
  return failure(ErrorKind::failed, "make a workload", std::move(message));
}

// The value of something that the workload omits: its default, computed from what is known so far.
Expected<double> fallback_of(const std::string& name, const std::optional<Expression>& fallback,
                             const Bindings& values) {
  if (!fallback) return illegal(fmt::format("'{}' is missing and has no default (give it)", name));
  const Expected<double> value = fallback->evaluate(values);
  if (!value) return illegal(fmt::format("the default of '{}': {}", name, value.error().message));
  return *value;
}

Expected<void> check_dimension(const std::string& name, double value) {
  if (value < 1 || value != std::floor(value) || value > 0x1p40)
    return illegal(fmt::format("the dimension {} must be a whole number of at least 1, not {}", name, value));
  return {};
}

Expected<void> check_parameter(const Parameter& parameter, double value) {
  if (parameter.flag && value != 0.0 && value != 1.0)
    return illegal(fmt::format("the flag {} must be 0 or 1, not {}", parameter.name, value));
  if (!is_floating(parameter.type) && value != round_to(parameter.type, value))
    return illegal(
        fmt::format("{} does not fit its type {}: {}", parameter.name, name_of(parameter.type), value));
  return {};
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

// Of a fill of whole numbers, whose bounds may depend on the workload.
std::string fill_trouble(const Task& task, const TensorSpec& tensor, const Workload& workload) {
  if (!is_whole(tensor.fill.kind)) return {};
  const std::string trouble =
      trouble_of(task.fill(tensor.fill, workload),
                 extent_along(tensor.fill.axis, task.shape(tensor, workload)), task.dtype(tensor, workload));
  return trouble.empty() ? trouble : fmt::format("the fill of {}: {}", tensor.name, trouble);
}

}  // namespace

const WorkloadSet* Task::workloads(std::string_view set) const {
  const auto found =
      std::find_if(workload_sets.begin(), workload_sets.end(), [&](const auto& s) { return s.name == set; });
  return found == workload_sets.end() ? nullptr : &*found;
}

const TensorSpec* Task::tensor(std::string_view tensor_name) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == tensor_name; });
  return found == tensors.end() ? nullptr : &*found;
}

bool Task::is_derived(std::string_view input) const {
  return derived && std::ranges::count(derived->inputs, input) != 0;
}

Bindings Task::bindings(const Workload& workload) const {
  Bindings result = workload.values;
  result["dtype"] = static_cast<double>(workload.dtype);
  result["element_bytes"] = static_cast<double>(size_of(workload.dtype));
  for (const auto& [let_name, expression] : let)
    result[let_name] = evaluated(expression, result, fmt::format("task {}: let.{}", name, let_name));
  return result;
}

std::vector<std::int64_t> Task::shape(const TensorSpec& spec, const Workload& workload) const {
  std::vector<std::int64_t> result;
  for (const std::string& dimension : spec.shape) {
    if (is_constant(dimension)) {
      result.push_back(std::stoll(dimension));
      continue;
    }
    const auto found = workload.values.find(dimension);
    if (found == workload.values.end())
      throw InputError(
          fmt::format("task {}: workload {} lacks the dimension {}", name, workload.name, dimension));
    result.push_back(static_cast<std::int64_t>(found->second));
  }
  return result;
}

std::size_t Task::bytes_of(const TensorSpec& spec, const Workload& workload) const {
  std::size_t bytes = size_of(dtype(spec, workload));
  for (const std::int64_t extent : shape(spec, workload)) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

std::int64_t Task::row_count(const Workload& workload) const {
  std::int64_t count = 1;
  for (const std::string& dimension : rows) count *= static_cast<std::int64_t>(workload.values.at(dimension));
  return count;
}

Fill Task::fill(const Fill& spec, const Workload& workload) const {
  Fill known = spec;
  const auto set = [&](double& number, const std::optional<Expression>& expression) {
    if (expression) number = evaluated(*expression, bindings(workload), fmt::format("task {}: a fill", name));
  };
  set(known.a, spec.a_of);
  set(known.b, spec.b_of);
  set(known.instead, spec.instead_of);
  known.a_of = known.b_of = known.instead_of = std::nullopt;
  return known;
}

double Task::flops(const Workload& workload) const {
  if (!cost.flops) {
    double elements = 0.0;
    for (const TensorSpec& tensor : tensors)
      elements += static_cast<double>(bytes_of(tensor, workload) / size_of(dtype(tensor, workload)));
    return elements;
  }
  return evaluated(*cost.flops, bindings(workload), fmt::format("task {}: cost.flops", name));
}

double Task::bytes(const Workload& workload) const {
  if (!cost.bytes) {
    double written = 0.0;
    for (const TensorSpec& tensor : tensors)
      if (tensor.role == Role::output) written += static_cast<double>(bytes_of(tensor, workload));
    return written;
  }
  return evaluated(*cost.bytes, bindings(workload), fmt::format("task {}: cost.bytes", name));
}

const Workload& Task::most_expensive(const std::vector<Workload>& of) const {
  return *std::ranges::max_element(of, {}, [&](const Workload& w) { return std::pair(flops(w), bytes(w)); });
}

Expected<Workload> make_workload(const Task& task, Bindings given, Dtype dtype, bool dtype_in_name) {
  Workload workload;
  workload.dtype = dtype;
  workload.values = std::move(given);
  for (const Dimension& d : task.dimensions) {
    if (!workload.values.contains(d.name)) {
      const Expected<double> value = fallback_of(d.name, d.fallback, workload.values);
      if (!value) return tl::make_unexpected(value.error());
      workload.values[d.name] = *value;
    }
    if (auto fits = check_dimension(d.name, workload.values.at(d.name)); !fits)
      return tl::make_unexpected(fits.error());
  }
  for (const Parameter& p : task.parameters) {
    if (!workload.values.contains(p.name)) {
      const Expected<double> value = fallback_of(p.name, p.fallback, workload.values);
      if (!value) return tl::make_unexpected(value.error());
      workload.values[p.name] = *value;
    }
    if (auto fits = check_parameter(p, workload.values.at(p.name)); !fits)
      return tl::make_unexpected(fits.error());
  }
  workload.name = name_of_workload(task, workload, dtype_in_name);

  Bindings bindings;
  try {
    bindings = task.bindings(workload);
    for (const TensorSpec& tensor : task.tensors) {
      double bytes = static_cast<double>(size_of(task.dtype(tensor, workload)));
      for (const std::int64_t extent : task.shape(tensor, workload)) bytes *= static_cast<double>(extent);
      if (bytes > 0x1p43)
        return illegal(fmt::format(
            "the tensor {} would have {:.3g} bytes, above the limit of 2^43 (reduce the dimensions)",
            tensor.name, bytes));
      if (auto trouble = fill_trouble(task, tensor, workload); !trouble.empty()) return illegal(trouble);
    }
    if (!(task.flops(workload) > 0) || !(task.bytes(workload) > 0))
      return illegal("the cost must be positive (correct cost.flops or cost.bytes)");
  } catch (const InputError& error) {
    return illegal(error.what());
  }
  for (const Expression& relation : task.where) {
    const Expected<double> holds = relation.evaluate(bindings);
    if (!holds) return tl::make_unexpected(holds.error());
    if (*holds == 0.0) {
      std::string numbers;
      for (const std::string& name : relation.names())
        numbers += fmt::format(" {}={}", name, bindings.at(name));
      return illegal(fmt::format("violates the task's relation '{}' with{}", relation.text(), numbers));
    }
  }
  return workload;
}

Bindings given_values(const Task& task, const Workload& workload) {
  Bindings given = workload.values;
  const auto forget_default = [&](const std::string& name, const std::optional<Expression>& fallback) {
    if (!fallback) return;
    const Expected<double> usual = fallback->evaluate(workload.values);
    if (usual && *usual == workload.values.at(name)) given.erase(name);
  };
  for (const Dimension& d : task.dimensions) forget_default(d.name, d.fallback);
  for (const Parameter& p : task.parameters) forget_default(p.name, p.fallback);
  return given;
}

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
