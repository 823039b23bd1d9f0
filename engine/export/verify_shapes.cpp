// SPDX-License-Identifier: Apache-2.0
#include "engine/export/verify_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/launchers/cpp_expression.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

namespace {

constexpr double kSmallBytes = 1 << 20;  // of all tensors: such a run takes milliseconds
constexpr std::size_t kDrawn = 1;

double bytes_of(const Task& task, const Workload& workload) {
  double bytes = 0.0;
  for (const TensorSpec& tensor : task.tensors) bytes += static_cast<double>(task.bytes_of(tensor, workload));
  return bytes;
}

// The shapes of one specialization.
class ShapeSearch {
 public:
  ShapeSearch(const LauncherInput& input, const Specialisation& specialisation)
      : task_(input.task), variant_(input.variant), input_(input), specialisation_(specialisation) {}

  bool fits(const Workload& workload) const {
    return workload.dtype == input_.workloads.front().dtype && claims(variant_, task_, workload) &&
           macros(variant_, task_, workload) == specialisation_.macros &&
           check_constraints(variant_, task_, workload, input_.facts).has_value();
  }

  // The same specialization with smaller dimensions, odd ones if the kernel claims them.
  Workload shrunk(Workload workload) const {
    for (const Dimension& dimension : task_.dimensions)
      for (const double size :
           {5.0, 7.0, 33.0, 65.0, 129.0, 257.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0}) {
        if (size >= workload.values.at(dimension.name)) continue;
        Bindings given = given_values(task_, workload);
        given[dimension.name] = size;
        auto made = make_workload(task_, given, workload.dtype, true);
        if (!made || !fits(*made)) continue;
        workload = std::move(*made);
        break;
      }
    return workload;
  }

  // One of the stress shapes comes first, if there is any.
  std::vector<VerifyShape> shapes(std::size_t kernel) const {
    std::vector<VerifyShape> chosen;
    const auto add = [&](const Workload& workload, bool stressed) {
      if (chosen.size() < kVerifyShapes && std::ranges::none_of(chosen, [&](const VerifyShape& known) {
            return known.workload.values == workload.values;
          }))
        chosen.push_back({kernel, specialisation_.suffix, workload, stressed});
    };
    for (const Workload& shape : claimed_shapes(task_, Stage::stress, variant_))
      if (chosen.empty() && fits(shape)) add(shape, true);
    std::vector<Workload> listed;
    for (const Workload& shape : every_claimed_shape(task_, variant_))
      if (fits(shape) && bytes_of(task_, shape) <= kSmallBytes) listed.push_back(shape);
    for (const auto* workloads : {&input_.workloads, &input_.covered})
      for (const Workload& workload : *workloads)
        if (fits(workload)) listed.push_back(shrunk(workload));
    std::ranges::stable_sort(listed, {}, [&](const Workload& w) { return bytes_of(task_, w); });
    const ShapeLimits limits{limits_of(task_, listed, 1.0).flops,
                             std::max(kSmallBytes, bytes_of(task_, listed.front()))};
    for (const Workload& drawn : draw_shapes(task_, variant_, listed, limits, kDrawn, 33,
                                             [&](const Workload& shape) { return fits(shape); }))
      add(drawn, false);
    // The largest of the listed ones has several tiles, the smallest perhaps a part of one.
    for (const Workload* each : {&listed.back(), &listed.front(), &listed[listed.size() / 2]})
      add(*each, false);
    return chosen;
  }

 private:
  const Task& task_;
  const Variant& variant_;
  const LauncherInput& input_;
  const Specialisation& specialisation_;
};

}  // namespace

std::vector<VerifyShape> verify_shapes(const LauncherInput& input, const std::vector<Specialisation>& served,
                                       std::size_t kernel) {
  std::vector<VerifyShape> all;
  for (const Specialisation& each : served)
    std::ranges::move(ShapeSearch(input, each).shapes(kernel), std::back_inserter(all));
  return all;
}

// Generates the task's data for a bundle's verify.cpp.

namespace {

constexpr std::string_view types = R"(// The task as data for verify.cpp; generated.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
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
enum class Kind {
  normal, uniform, constant, spread, rising, outliers, hot, one_hot, same_rows, integers, permutation, lengths, offsets
};
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

  // Of a name, or a constant extent such as "3".
  double number(const char* wanted) const {
    if (*wanted >= '0' && *wanted <= '9') return std::strtod(wanted, nullptr);
    for (const auto& n : numbers)
      if (std::strcmp(n.name, wanted) == 0) return n.value;
    return 1.0;
  }
};
// A dimension or parameter, and which numbers its type has.
struct Number {
  const char* name;
  enum class Kind { dimension, flag, whole, floating } kind;
  double least, greatest;
};
// A small shape for one specialization of one kernel, an index into kernel_names.
struct Shape {
  int kernel;
  const char* specialisation;
  Workload workload;
  bool stressed;  // one of those for which all stress cases are made
};

)";

std::string_view kind_name(Fill::Kind kind) {
  static constexpr std::array<std::string_view, 13> names{
      "normal",  "uniform",   "constant", "spread",      "rising",  "outliers", "hot",
      "one_hot", "same_rows", "integers", "permutation", "lengths", "offsets"};
  return names.at(static_cast<std::size_t>(kind));
}

// "{"S_q", Number::Kind::dimension, 1.0, 2147483647.0}, ".
std::string number_rows(const Task& task) {
  std::string text;
  const auto row = [&](const std::string& name, std::string_view kind, double least, double greatest) {
    text += fmt::format("    {{\"{}\", Number::Kind::{}, {}, {}}},\n", name, kind, literal(least),
                        literal(greatest));
  };
  for (const Dimension& dimension : task.dimensions)
    row(dimension.name, "dimension", 1.0, std::numeric_limits<std::int32_t>::max());
  for (const Parameter& parameter : task.parameters) {
    if (parameter.flag) {
      row(parameter.name, "flag", 0.0, 1.0);
    } else if (is_floating(parameter.type)) {
      const double most = parameter.type == Dtype::f64 ? std::numeric_limits<double>::max()
                                                       : std::numeric_limits<float>::max();
      row(parameter.name, "floating", -most, most);
    } else {  // numbers come as double
      const bool is_signed = name_of(parameter.type).front() == 'i';
      const int bits = 8 * static_cast<int>(size_of(parameter.type)) - (is_signed ? 1 : 0);
      const double most = bits > 53 ? 0x1p53 : std::ldexp(1.0, bits) - 1.0;
      row(parameter.name, "whole", !is_signed ? 0.0 : bits > 53 ? -most : -most - 1.0, most);
    }
  }
  return text;
}

int axis_of(const Fill& fill, const TensorSpec& tensor) {
  const int rank = static_cast<int>(tensor.shape.size());
  return fill.axis == kAllAxes ? -1 : fill.axis < 0 ? std::max(0, rank + fill.axis) : fill.axis;
}

// One for each tensor.
std::string fills_of(const Task& task, const Workload& workload) {
  std::string text;
  for (const auto& tensor : task.tensors) {
    const Fill fill = task.fill(tensor.fill, workload);
    text += fmt::format("{{Kind::{}, {}, {}, {}, {}, {}}}, ", kind_name(fill.kind), literal(fill.a),
                        literal(fill.b), literal(fill.instead), literal(fill.share), axis_of(fill, tensor));
  }
  return text;
}

std::string workload_row(const Task& task, const Workload& workload) {
  std::string numbers;
  for (const auto& [name, value] : task.bindings(workload))
    numbers += fmt::format("{{\"{}\", {}}}, ", name, literal(value));
  return fmt::format(
      "{{\"{}\", {{{}}}, {}, {{{}}}}}", workload.name, numbers,
      literal(task.cost.report == Cost::Report::flops ? task.flops(workload) : task.bytes(workload)),
      fills_of(task, workload));
}

// A fill of a workload's numbers as C++; `trouble` is set if one of its expressions cannot be translated.
std::string fill_text(const Fill& fill, const TensorSpec& tensor, std::string& trouble) {
  const auto number = [&](const std::optional<Expression>& of, double value) {
    if (!of) return literal(value);
    auto cpp = to_cpp(*of);
    if (!cpp) trouble = cpp.error().message;
    return cpp.value_or("0.0");
  };
  return fmt::format("{{Kind::{}, {}, {}, {}, {}, {}}}", kind_name(fill.kind), number(fill.a_of, fill.a),
                     number(fill.b_of, fill.b), number(fill.instead_of, fill.instead), literal(fill.share),
                     axis_of(fill, tensor));
}

// The task's fills of a workload, and the stress cases: their names, and a function that returns what each
// replaces.
Expected<std::string> fills_of_workloads(const Task& task, Dtype dtype) {
  std::string names, cases, fills, trouble;
  for (const auto& tensor : task.tensors) fills += fill_text(tensor.fill, tensor, trouble) + ", ";
  for (std::size_t s = 0; s < task.stress.size(); ++s) {
    names += fmt::format("\"{}\", ", task.stress[s].name);
    cases += fmt::format("    case {}: return {{", s);
    for (std::size_t t = 0; t < task.tensors.size(); ++t) {
      const auto found = task.stress[s].fills.find(task.tensors[t].name);
      if (found == task.stress[s].fills.end()) continue;
      cases += fmt::format("{{{}, {}}}, ", t, fill_text(found->second, task.tensors[t], trouble));
    }
    cases += "};\n";
  }
  if (!trouble.empty()) return failure("export", trouble);
  std::string bound = dtype_bindings(dtype);
  const auto bind = [&](const auto& all) {
    for (const auto& each : all)
      bound += binding(each.name, fmt::format("workload.number(\"{}\")", each.name));
  };
  bind(task.dimensions);
  bind(task.parameters);
  for (const auto& [name, expression] : task.let)
    bound += binding(name, fmt::format("workload.number(\"{}\")", name));
  return fmt::format(
      "// How the inputs of a workload of these numbers are drawn.\n"
      "inline std::vector<Fill> task_fills([[maybe_unused]] const Workload& workload) {{\n"
      "    namespace expression = cultivar_export::expression;\n{0}  return {{{3}}};\n}}\n\n"
      "const std::vector<const char*> stress_names{{{1}}};\n"
      "// The fills that a stress case replaces, by tensor.\n"
      "inline std::vector<std::pair<std::size_t, Fill>> stress_fills(std::size_t which, [[maybe_unused]] "
      "const Workload& workload) {{\n"
      "    namespace expression = cultivar_export::expression;\n{0}  switch (which) {{\n{2}  }}\n  return "
      "{{}};\n}}\n\n",
      bound, names, cases, fills);
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

Expected<std::string> verify_data(const LauncherInput& input, const std::vector<std::string>& kernels,
                                  const std::vector<VerifyShape>& shapes) {
  const auto& task = input.task;
  const Workload& first = input.workloads.front();
  std::string text(types);
  text += fmt::format("const Dtype dtype = Dtype::{};\n", name_of(first.dtype));
  text += fmt::format("const double factor = {}, floor_eps = {};\n", task.tolerance.factor,
                      task.tolerance.floor_eps);
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
  text += "};\nconst std::vector<Number> known_numbers{\n" + number_rows(task);
  text += "};\nconst std::vector<Workload> workloads{\n";
  for (const auto& workload : input.workloads) text += fmt::format("    {},\n", workload_row(task, workload));
  text += "};\nconst std::vector<const char*> kernel_names{";
  for (const std::string& name : kernels) text += fmt::format("\"{}\", ", name);
  text += "};\nconst std::vector<Shape> shapes{\n";
  for (const VerifyShape& shape : shapes)
    text += fmt::format("    {{{}, \"{}\", {}, {}}},\n", shape.kernel, shape.specialisation,
                        workload_row(task, shape.workload), shape.stressed);
  text += "};\n\n";
  const auto stressed = fills_of_workloads(task, first.dtype);
  if (!stressed) return stressed;
  text += *stressed;

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
