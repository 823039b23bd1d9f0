#include "engine/export/launcher_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "engine/export/cpp_expression.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

std::string short_identity(const Variant& variant) {
  return variant.id.substr(0, 12);
}

std::string literal(double value) {
  return fmt::format("{}", value).find_first_of(".en") == std::string::npos ? fmt::format("{}.0", value)
                                                                            : fmt::format("{:.17g}", value);
}

std::string_view kind_of(const Fill& fill) {
  switch (fill.kind) {
    case Fill::Kind::uniform:
      return "uniform";
    case Fill::Kind::integers:
      return "integers";
    case Fill::Kind::permutation:
      return "permutation";
    case Fill::Kind::lengths:
      return "lengths";
    case Fill::Kind::offsets:
      return "offsets";
    default:
      return "normal";
  }
}

std::string_view cpp_type(Dtype dtype) {  // floating types of 16 and 8 bits as their bits
  static constexpr std::array<std::string_view, dtype_count> names{
      "double",        "float",        "std::uint16_t", "std::uint16_t", "std::int64_t",
      "std::int32_t",  "std::int16_t", "std::int8_t",   "std::uint64_t", "std::uint32_t",
      "std::uint16_t", "std::uint8_t", "std::uint8_t",  "std::uint8_t"};
  return names[static_cast<std::size_t>(dtype)];
}

std::string pascal_case(std::string_view name) {
  std::string result;
  bool upper = true;
  for (const char c : name) {
    if (c == '_') {
      upper = true;
    } else {
      result += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      upper = false;
    }
  }
  return result;
}

std::vector<Specialisation> specialisations(const LauncherInput& input) {
  std::vector<Specialisation> result;
  for (const auto& workload : input.workloads) {
    Specialisation candidate;
    candidate.macros = macros(input.variant, input.task, workload);
    const auto known = [&](const Specialisation& s) { return s.macros == candidate.macros; };
    if (std::any_of(result.begin(), result.end(), known)) continue;
    const auto values = device_free_numbers(input.variant, input.task, workload);
    for (const auto& name : input.variant.manifest.specialize) {
      const auto it = values.find(name);
      if (name == "dtype" || it == values.end()) continue;
      candidate.condition.emplace_back(name, it->second);
      auto text = fmt::format("{}{}", name, it->second);
      std::replace_if(
          text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
      candidate.suffix += (candidate.suffix.empty() ? "" : "_") + text;
    }
    if (candidate.suffix.empty()) candidate.suffix = "any";
    const auto same = [&](const Specialisation& s) { return s.suffix == candidate.suffix; };
    if (std::any_of(result.begin(), result.end(), same))
      candidate.suffix += fmt::format("_{}", result.size());
    result.push_back(std::move(candidate));
  }
  return result;
}

namespace {

// A field with its default: the task's default if it is a number; std::optional if it depends on other
// values, which name_bindings then computes; `otherwise` if the task has no default.
std::string member(std::string_view type, const std::string& name, const std::string& words,
                   const std::optional<Expression>& fallback, std::string_view otherwise) {
  const std::string about = cpp_comment(words);
  if (!fallback) return fmt::format("  {} {} = {};  // {}\n", type, name, otherwise, about);
  const auto number = fallback->evaluate({});
  if (!number)
    return fmt::format("  std::optional<{}> {} = std::nullopt;  // {}; default: {}\n", type, name, about,
                       fallback->text());
  return fmt::format("  {} {} = {};  // {}\n", type, name,
                     type == "bool"                        ? (*number != 0.0 ? "true" : "false")
                     : type == "float" || type == "double" ? literal(*number)
                                                           : fmt::format("{:.0f}", *number),
                     about);
}

}  // namespace

std::string argument_members(const LauncherInput& input, std::string_view (*pointee)(Dtype)) {
  std::string members;
  for (const auto& dimension : input.task.dimensions)
    members += member("std::int64_t", dimension.name, dimension.about, dimension.fallback, "0");
  for (const auto& parameter : input.task.parameters)
    members += member(parameter.flag ? "bool"
                      : is_floating(parameter.type) && parameter.type != Dtype::f64
                          ? "float"  // passed as a number, not as bits
                          : cpp_type(parameter.type),
                      parameter.name, parameter.about, parameter.fallback, parameter.flag ? "false" : "0");
  for (const auto& tensor : input.task.tensors) {
    const Dtype dtype = input.task.dtype(tensor, input.workloads.front());
    members +=
        fmt::format("  {}{}* {} = nullptr;  // {} [{}], {}\n", tensor.role == Role::input ? "const " : "",
                    pointee(dtype), tensor.name, tensor.role == Role::input ? "in" : "out",
                    fmt::join(tensor.shape, ", "), name_of(dtype));
  }
  return members;
}

std::string tensor_checks(const Task& task, int alignment) {
  std::string text;
  for (const auto& tensor : task.tensors) {
    text += fmt::format(
        "    if (arguments.{1} == nullptr) throw std::invalid_argument(\"{0}: the tensor {1} is null\");\n",
        task.name, tensor.name);
    if (alignment > 1)
      text += fmt::format(
          "    if (reinterpret_cast<std::uintptr_t>(arguments.{1}) % {2} != 0)\n"
          "      throw std::invalid_argument(\"{0}: the tensor {1} must start at a multiple of {2} "
          "bytes\");\n",
          task.name, tensor.name, alignment);
  }
  return text;
}

std::string binding(std::string_view name, std::string_view value) {
  return fmt::format("    [[maybe_unused]] const double {} = {};\n", variable(name), value);
}

std::string scalar(Dtype type, std::string_view value, std::string_view what) {
  if (type == Dtype::f16 || type == Dtype::bf16) return fmt::format("{}_bits({})", name_of(type), value);
  if (is_floating(type)) return fmt::format("static_cast<{}>({})", cpp_type(type), value);
  return fmt::format("integer<{}>({}, \"{}\")", cpp_type(type), value, what);
}

std::string dtype_bindings(Dtype dtype) {
  std::string text;
  for (int i = 0; i < dtype_count; ++i) text += binding(name_of(static_cast<Dtype>(i)), literal(i));
  text += binding("dtype", variable(name_of(dtype)));
  text += binding("element_bytes", literal(static_cast<double>(size_of(dtype))));
  return text;
}

Expected<std::string> name_bindings(const LauncherInput& input,
                                    std::string (*fact)(const std::string&, double)) {
  std::string text;
  const auto bind = [&](std::string_view name, const std::string& value) { text += binding(name, value); };
  std::string trouble;
  const auto given = [&](const std::string& name, const std::optional<Expression>& fallback) {
    if (!fallback || fallback->evaluate({})) return bind(name, fmt::format("double(arguments.{})", name));
    const auto cpp = to_cpp(*fallback);
    if (!cpp) trouble = cpp.error().message;
    bind(name, fmt::format("arguments.{0} ? double(*arguments.{0}) : {1}", name, cpp.value_or("0.0")));
  };
  text += dtype_bindings(input.workloads.front().dtype);
  for (const auto& dimension : input.task.dimensions) given(dimension.name, dimension.fallback);
  for (const auto& parameter : input.task.parameters) given(parameter.name, parameter.fallback);
  if (!trouble.empty()) return failure("export", trouble);
  for (const auto& [name, value] : input.facts) bind(name, fact(name, value));
  for (const auto& [name, value] : bindings(input.variant.manifest.tunables, input.variant.configuration))
    bind(name, literal(value));
  for (const auto* lets : {&input.task.let, &input.variant.manifest.let})
    for (const auto& [name, expression] : *lets) {
      auto cpp = to_cpp(expression);
      if (!cpp) return tl::make_unexpected(cpp.error());
      bind(name, *cpp);
    }
  return text;
}

Expected<std::string> requirement(const Expression& expression, const std::string& message) {
  auto cpp = to_cpp(expression);
  if (!cpp) return tl::make_unexpected(cpp.error());
  return fmt::format("    if (({}) == 0.0) throw std::invalid_argument(\"{}\");\n", *cpp, message);
}

Expected<std::string> requirements(const LauncherInput& input) {
  std::string text;
  for (const auto& dimension : input.task.dimensions)  // kernels use 32-bit sizes
    text += fmt::format(
        "    if (!({2} >= 1.0 && {2} <= 2147483647.0)) throw std::invalid_argument(\"{0}: {1} is \" + "
        "std::to_string((long long)({2})) + \", but must be from 1 to 2147483647\");\n",
        input.task.name, dimension.name, variable(dimension.name));
  for (const auto& relation : input.task.where) {
    const auto one = requirement(relation, fmt::format("{}: needs {}", input.task.name, relation.text()));
    if (!one) return one;
    text += *one;
  }
  if (const auto& claim = input.variant.manifest.requires_) {
    const auto one =
        requirement(*claim, fmt::format("{}: this kernel needs {}", input.task.name, claim->text()));
    if (!one) return one;
    text += *one;
  }
  return text;
}

Expected<std::string> workspace_places(const LauncherInput& input, std::string_view room,
                                       std::string_view between) {
  std::vector<std::string> sizes;
  for (const WorkspaceSpec& workspace : input.variant.manifest.workspace) {
    auto cpp = to_cpp(workspace.bytes);
    if (!cpp) return cpp;
    sizes.push_back(
        fmt::format("std::size_t(whole({}, \"the size of workspace {}\"))", *cpp, workspace.name));
  }
  return fmt::format(
      "    const std::vector<std::size_t> sizes{{{}}};\n{}"
      "    [[maybe_unused]] const auto places = {};\n",
      fmt::join(sizes, ", "), between, room);
}

std::string choice_of_specialisation(const LauncherInput& input, const std::vector<Specialisation>& served,
                                     const std::vector<std::string>& bodies) {
  std::string text;
  std::vector<std::string> names;
  for (std::size_t s = 0; s < served.size(); ++s) {
    std::vector<std::string> tests;
    for (const auto& [name, value] : served[s].condition)
      tests.push_back(value == std::floor(value)  // a non-integer macro is a float
                          ? fmt::format("{} == {}", variable(name), literal(value))
                          : fmt::format("float({}) == float({})", variable(name), literal(value)));
    text += fmt::format("    {}if ({}) {{\n{}", s ? "} else " : "",
                        tests.empty() ? "true" : fmt::format("{}", fmt::join(tests, " && ")), bodies.at(s));
    names.push_back(served[s].suffix);
  }
  return text + fmt::format(
                    "    }} else {{\n      throw std::invalid_argument(\"{}: built for {} only\");\n    }}\n",
                    input.task.name, fmt::join(names, ", "));
}

Expected<Plan> plan_of_each_launch(const LauncherInput& input) {
  Variant variant = input.variant;
  for (KernelLaunch& launch : variant.manifest.launch) {
    launch.when.reset();
    if (launch.repeat) launch.repeat = Expression::constant(1);
  }
  return make_plan(variant, input.task, input.workloads.front(), input.facts);
}

Expected<std::string> as_often_as_said(const KernelLaunch& launch, const std::string& statements) {
  std::string text = statements;
  if (launch.repeat) {
    const auto times = to_cpp(*launch.repeat);
    if (!times) return times;
    text = fmt::format("    for (double {0} = 0.0, steps = {1}; {0} < steps; ++{0}) {{\n{2}    }}\n",
                       variable("step"), *times, text);
  }
  if (launch.when) {
    const auto when = to_cpp(*launch.when);
    if (!when) return when;
    text = fmt::format("    if ({} != 0.0) {{\n{}    }}\n", *when, text);
  } else if (launch.repeat) {
    text = fmt::format("    {{\n{}    }}\n", text);
  }
  return text;
}

}  // namespace cultivar
