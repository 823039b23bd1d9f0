// Generates the task's data for a bundle's verify.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "engine/export/cpp_expression.hpp"
#include "engine/export/launcher_parts.hpp"

namespace cultivar {
namespace {

constexpr std::string_view types = R"(// The task as data for verify.cpp; generated.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "cultivar_reference.hpp"
#include "evaluators/dtype/dtype.hpp"

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
  double cost = 0;

  double number(const char* wanted) const {
    for (const auto& n : numbers)
      if (std::strcmp(n.name, wanted) == 0) return n.value;
    return 1.0;
  }
};

)";

// Statements that define each dimension and parameter as the given value or its default, and the values
// derived from them.
Expected<std::string> numbers(const Task& task, Dtype dtype) {
  std::string text = dtype_bindings(dtype), trouble;
  const auto cpp = [&](const Expression& expression) {
    auto written = to_cpp(expression);
    if (!written) trouble = written.error().message;
    return written.value_or("0.0");
  };
  const auto given = [&](const std::string& name, const std::optional<Expression>& fallback) {
    text += binding(name, fmt::format("given(\"{0}\") ? *given(\"{0}\") : {1}", name,
                                      fallback ? cpp(*fallback) : fmt::format("missing(\"{}\")", name)));
  };
  for (const Dimension& dimension : task.dimensions) given(dimension.name, dimension.fallback);
  for (const Parameter& parameter : task.parameters) given(parameter.name, parameter.fallback);
  for (const auto& [name, expression] : task.let) text += binding(name, cpp(expression));
  if (!trouble.empty()) return failure("export", trouble);
  return text;
}

}  // namespace

Expected<std::string> verify_data(const LauncherInput& input) {
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
    text +=
        fmt::format("}}, {}}},\n", literal(task.cost.by_bytes ? task.bytes(workload) : task.flops(workload)));
  }
  text += "};\n\n";

  const auto bound = numbers(task, first.dtype);
  if (!bound) return bound;
  text += fmt::format(
      "[[noreturn]] inline double missing(const char* name) {{\n"
      "  throw std::runtime_error(\"{}: the workload has no value for \" + std::string(name));\n"
      "}}\n\n"
      "// All numbers of a workload. given(name) is a pointer to a value; null: the default is used.\n"
      "template <class Given>\n"
      "std::vector<ReferenceNumber> numbers_of(const Given& given) {{\n"
      "    namespace expression = cultivar_export::expression;\n{}    return {{",
      task.name, *bound);
  for (const auto& [name, value] : task.bindings(first))
    text += fmt::format("{{\"{}\", {}}}, ", name, variable(name));
  text += "};\n}\n\n";

  text += fmt::format(
      "// The launcher's arguments; `places` is in the order of `tensors`.\n"
      "inline void place(cultivar_export::{0}Arguments& arguments, void* const* places) {{\n",
      pascal_case(task.name));
  for (std::size_t t = 0; t < task.tensors.size(); ++t)
    text += fmt::format("  arguments.{0} = static_cast<decltype(arguments.{0})>(places[{1}]);\n",
                        task.tensors[t].name, t);
  text += fmt::format(
      "}}\n"
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
  return text + "  place(arguments, places.data());\n  return arguments;\n}\n\n}  // namespace verify_data\n";
}

}  // namespace cultivar
