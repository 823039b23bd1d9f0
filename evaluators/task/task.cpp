// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/task.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cultivar {

namespace {

// A loaded task's expressions were checked for every workload in its file. A failure therefore comes from a
// workload made elsewhere: a bug or bad input.
double evaluated(const Expression& expression, const Bindings& bindings, const std::string& where) {
  const Expected<double> value = expression.evaluate(bindings);
  if (!value) throw InputError(fmt::format("{}: {}", where, value.error().message));
  return *value;
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

}  // namespace cultivar
