// The task as data for a bundle's verify.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "engine/export/launcher_parts.hpp"

namespace cultivar {
namespace {

constexpr std::string_view types = R"(// The task as data for verify.cpp; generated.
#pragma once

#include <cstring>
#include <vector>

#include "cultivar_reference.hpp"
#include "evaluators/task/dtype.hpp"

namespace verify_data {

using cultivar::Dtype;

struct Tensor {
  const char* name;
  Dtype dtype;
  bool output, uniform;
  double a, b;
  std::vector<const char*> shape;
};
struct Workload {
  const char* name;
  std::vector<ReferenceNumber> numbers;
  double cost;
  std::int64_t row_elements;

  double number(const char* wanted) const {
    for (const auto& n : numbers)
      if (std::strcmp(n.name, wanted) == 0) return n.value;
    return 1.0;
  }
};

)";

// Of the oracle's row: every output's dimensions that are not among `rows`.
std::int64_t row_elements(const Task& task, const Workload& workload) {
  std::int64_t all = 0;
  for (const auto& tensor : task.tensors) {
    if (tensor.role != Role::output) continue;
    std::int64_t elements = 1;
    for (const auto& dimension : tensor.shape)
      if (std::find(task.rows.begin(), task.rows.end(), dimension) == task.rows.end())
        elements *= static_cast<std::int64_t>(workload.values.at(dimension));
    all += elements;
  }
  return all;
}

}  // namespace

std::string verify_data(const LauncherInput& input) {
  const auto& task = input.task;
  const Workload& first = input.workloads.front();
  std::string text(types);
  text += fmt::format("const double factor = {}, floor_eps = {}, epsilon = {};\n", task.tolerance.factor,
                      task.tolerance.floor_eps, accumulation_epsilon(first.dtype));
  text += fmt::format(
      "inline double round_to_dtype(double value) {{ return cultivar::round_to(Dtype::{}, value); }}\n",
      name_of(first.dtype));
  text += "const std::vector<const char*> row_dimensions{";
  for (const auto& row : task.rows) text += fmt::format("\"{}\", ", row);
  text += "};\nconst std::vector<Tensor> tensors{\n";
  for (const auto& tensor : task.tensors) {
    text += fmt::format("    {{\"{}\", Dtype::{}, {}, {}, {}, {}, {{", tensor.name,
                        name_of(task.dtype(tensor, first)), tensor.role == Role::output,
                        tensor.fill.kind == Fill::Kind::uniform, tensor.fill.a, tensor.fill.b);
    for (const auto& dimension : tensor.shape) text += fmt::format("\"{}\", ", dimension);
    text += "}},\n";
  }
  text += "};\nconst std::vector<Workload> workloads{\n";
  for (const auto& workload : input.workloads) {
    text += fmt::format("    {{\"{}\", {{", workload.name);
    for (const auto& [name, value] : task.bindings(workload))
      text += fmt::format("{{\"{}\", {}}}, ", name, literal(value));
    text += fmt::format("}}, {}, {}}},\n",
                        literal(task.cost.by_bytes ? task.bytes(workload) : task.flops(workload)),
                        row_elements(task, workload));
  }
  text += "};\n\n";

  text += fmt::format(
      "// The workload's arguments for the launcher; `places` follows `tensors`.\n"
      "inline cultivar_export::{0}Arguments bind(const Workload& workload, const std::vector<void*>& places) "
      "{{\n"
      "  cultivar_export::{0}Arguments arguments;\n",
      pascal_case(task.name));
  for (const auto& dimension : task.dimensions)
    text += fmt::format("  arguments.{0} = static_cast<std::int64_t>(workload.number(\"{0}\"));\n",
                        dimension.name);
  for (const auto& parameter : task.parameters)
    text += fmt::format("  arguments.{0} = static_cast<decltype(arguments.{0})>(workload.number(\"{0}\"));\n",
                        parameter.name);
  for (std::size_t t = 0; t < task.tensors.size(); ++t)
    text += fmt::format("  arguments.{0} = static_cast<decltype(arguments.{0})>(places[{1}]);\n",
                        task.tensors[t].name, t);
  return text + "  return arguments;\n}\n\n}  // namespace verify_data\n";
}

}  // namespace cultivar
