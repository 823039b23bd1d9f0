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
  bool output;
  std::vector<const char*> shape;
  // Of an output: the dimensions that a row of the oracle has one index of. Of a derived input: those of derive_row.
  std::vector<const char*> rows;
  bool derived = false;
};
// How an input of a workload is drawn; see configs/tasks/README.md of Cultivar.
enum class Kind { normal, uniform, integers, permutation, lengths, offsets };
struct Fill {
  Kind kind = Kind::normal;
  double a = 0, b = 1, instead = 0, share = 0;
  int axis = 0;  // negative: the whole tensor is one line
};
struct Workload {
  const char* name;
  std::vector<ReferenceNumber> numbers;
  double cost = 0;
  std::vector<Fill> fills = {};  // one for each tensor; those of outputs are not used

  double number(const char* wanted) const {
    for (const auto& n : numbers)
      if (std::strcmp(n.name, wanted) == 0) return n.value;
    return 1.0;
  }
};

)";

// One for each tensor.
std::string fills_of(const Task& task, const Workload& workload) {
  std::string text;
  for (const auto& tensor : task.tensors) {
    const Fill fill = task.fill(tensor.fill, workload);
    const int rank = static_cast<int>(tensor.shape.size());
    const int axis = fill.axis == kAllAxes ? -1 : fill.axis < 0 ? rank + fill.axis : fill.axis;
    text += fmt::format("{{Kind::{}, {}, {}, {}, {}, {}}}, ", kind_of(fill), literal(fill.a), literal(fill.b),
                        literal(fill.instead), literal(fill.share), axis);
  }
  return text;
}

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
  text += "const std::vector<Tensor> tensors{\n";
  for (const auto& tensor : task.tensors) {
    text += fmt::format("    {{\"{}\", Dtype::{}, {}, {{", tensor.name, name_of(task.dtype(tensor, first)),
                        tensor.role == Role::output);
    for (const auto& dimension : tensor.shape) text += fmt::format("\"{}\", ", dimension);
    text += "}, {";
    if (tensor.role == Role::output)
      for (const auto& row : tensor.rows ? *tensor.rows : task.rows) text += fmt::format("\"{}\", ", row);
    const bool derived = task.is_derived(tensor.name);
    if (derived)
      for (const auto& row : task.derived->rows) text += fmt::format("\"{}\", ", row);
    text += derived ? "}, true},\n" : "}},\n";
  }
  text += "};\nconst std::vector<Workload> workloads{\n";
  for (const auto& workload : input.workloads) {
    text += fmt::format("    {{\"{}\", {{", workload.name);
    for (const auto& [name, value] : task.bindings(workload))
      text += fmt::format("{{\"{}\", {}}}, ", name, literal(value));
    text += fmt::format(
        "}}, {}, {{{}}}}},\n",
        literal(task.cost.report == Cost::Report::flops ? task.flops(workload) : task.bytes(workload)),
        fills_of(task, workload));
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
