// SPDX-License-Identifier: Apache-2.0
#include "evaluators/launchers/launcher_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "embedded/launchers_templates.hpp"
#include "evaluators/launchers/cpp_expression.hpp"
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
  std::vector<Workload> workloads = input.workloads;
  workloads.insert(workloads.end(), input.covered.begin(), input.covered.end());
  for (const auto& workload : workloads) {
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

bool serves(const LauncherInput& input, const std::vector<Specialisation>& served, const Workload& workload) {
  if (!claims(input.variant, input.task, workload)) return false;
  if (!check_constraints(input.variant, input.task, workload, input.facts)) return false;
  const Bindings values = device_free_numbers(input.variant, input.task, workload);
  return std::any_of(served.begin(), served.end(), [&](const Specialisation& s) {
    return std::all_of(s.condition.begin(), s.condition.end(),
                       [&](const auto& one) { return values.at(one.first) == one.second; });
  });
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

namespace {

std::int64_t most_elements_of(const LauncherInput& input, const TensorSpec& tensor) {
  const auto known = input.most_elements.find(tensor.name);
  return known != input.most_elements.end()
             ? known->second
             : kUncheckedBytes /
                   static_cast<std::int64_t>(size_of(input.task.dtype(tensor, input.workloads.front())));
}

}  // namespace

std::string words_of_sizes(const LauncherInput& input) {
  std::map<std::int64_t, std::vector<std::string>> tensors;
  for (const TensorSpec& tensor : input.task.tensors)
    tensors[most_elements_of(input, tensor)].push_back(tensor.name);
  std::vector<std::string> words;
  for (const auto& [most, names] : tensors)
    words.push_back(
        fmt::format("{} elements in {}", most,
                    tensors.size() == 1 ? "a tensor" : fmt::format("{}", fmt::join(names, ", "))));
  return fmt::format("{}", fmt::join(words, ", and "));
}

std::map<std::string, std::string, std::less<>> launcher_values(const LauncherInput& input) {
  return {{"task", input.task.name},
          {"class", pascal_case(input.task.name)},
          {"summary", input.task.summary},
          {"variant", input.variant.manifest.name},
          {"id", short_identity(input.variant)},
          {"inline", input.folder.empty() ? "inline " : ""},
          {"about_namespace",
           input.folder.empty()
               ? "A namespace for this kernel, so that one program can include headers of several "
                 "exports. Inline: callers omit it."
               : "One of several kernels of the task; ../../" + input.task.name + ".hpp calls it."},
          {"first_dimension", input.task.dimensions.front().name},
          {"first_tensor_comment", fmt::format(".{} = ...", input.task.tensors.front().name)},
          {"workspace_count", std::to_string(input.variant.manifest.workspace.size())},
          {"expressions", std::string(launchers_templates::expressions_hpp)},
          {"checks", std::string(launchers_templates::checks_hpp)},
          {"alignment", std::to_string(kTensorAlignment)},
          {"most_elements", words_of_sizes(input)}};
}

std::string_view pointee_of(Target target, Dtype dtype) {
  return !target->on_host && is_floating(dtype) && size_of(dtype) <= 2 ? "void" : cpp_type(dtype);
}

std::string argument_members(const LauncherInput& input, std::string_view type) {
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
    const std::string pointer = fmt::format("{}{}*", tensor.role == Role::input ? "const " : "",
                                            pointee_of(input.variant.manifest.target, dtype));
    members +=
        fmt::format("  {} {} = nullptr;  // {} [{}], {}\n", type.empty() ? pointer : type, tensor.name,
                    tensor.role == Role::input ? "in" : "out", fmt::join(tensor.shape, ", "), name_of(dtype));
  }
  return members;
}

namespace {

// The number of elements as a C++ expression of type double.
std::string elements_of(const TensorSpec& tensor) {
  std::vector<std::string> factors;
  for (const std::string& extent : tensor.shape)
    factors.push_back(is_constant(extent) ? extent + ".0" : variable(extent));
  return factors.empty() ? "1.0" : fmt::format("{}", fmt::join(factors, " * "));
}

}  // namespace

std::string in_place_of(const Task&, const TensorSpec& output) {
  return output.in_place;
}

std::string nothing_to_compute(const Task& task) {
  std::vector<std::string> tests;
  for (const auto& tensor : task.tensors)
    if (tensor.role == Role::output)
      tests.push_back(fmt::format("arguments.{} == nullptr && {} == 0.0", tensor.name, elements_of(tensor)));
  return fmt::format("{}", fmt::join(tests, " && "));
}

std::string tensor_places(const LauncherInput& input) {
  std::string text = "    const place_t tensors[] = {\n";
  for (const auto& tensor : input.task.tensors) {
    const bool output = tensor.role == Role::output;
    const std::string same = output ? in_place_of(input.task, tensor) : "";
    text += fmt::format(
        "        {{\"{0}\", address_of(arguments.{0}), std::uint64_t({1}) * {2}, {3}, {4}}},\n", tensor.name,
        elements_of(tensor), size_of(input.task.dtype(tensor, input.workloads.front())), output,
        same.empty() ? "nullptr" : '"' + same + '"');
  }
  return text + "    };\n";
}

std::string tensor_checks(const LauncherInput& input, std::string_view remedy) {
  return tensor_places(input) + fmt::format("    check_places(tensors, {}, \"{}\", \"{}\");\n",
                                            kTensorAlignment, input.task.name, remedy);
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

Expected<std::string> task_bindings(const LauncherInput& input) {
  std::string text = dtype_bindings(input.workloads.front().dtype), trouble;
  const auto given = [&](const std::string& name, const std::optional<Expression>& fallback) {
    if (!fallback || fallback->evaluate({}))
      return (void)(text += binding(name, fmt::format("double(arguments.{})", name)));
    const auto cpp = to_cpp(*fallback);
    if (!cpp) trouble = cpp.error().message;
    text +=
        binding(name, fmt::format("arguments.{0} ? double(*arguments.{0}) : {1}", name, cpp.value_or("0.0")));
  };
  for (const auto& dimension : input.task.dimensions) given(dimension.name, dimension.fallback);
  for (const auto& parameter : input.task.parameters) given(parameter.name, parameter.fallback);
  if (!trouble.empty()) return failure("export", trouble);
  return text;
}

Expected<std::string> name_bindings(const LauncherInput& input,
                                    std::string (*fact)(const std::string&, double)) {
  auto given = task_bindings(input);
  if (!given) return given;
  std::string text = std::move(*given);
  for (const auto& [name, value] : input.facts) text += binding(name, fact(name, value));
  for (const auto& [name, value] : bindings(input.variant.manifest.tunables, input.variant.configuration))
    text += binding(name, literal(value));
  for (const auto* lets : {&input.task.let, &input.variant.manifest.let})
    for (const auto& [name, expression] : *lets) {
      auto cpp = to_cpp(expression);
      if (!cpp) return tl::make_unexpected(cpp.error());
      text += binding(name, *cpp);
    }
  return text;
}

namespace {

// The values of a parameter, for people: "from 1 to 4096, or 0".
std::string words_of_values(const LauncherInput& input, const Parameter& parameter) {
  if (parameter.flag) return "0 or 1";
  const auto found = input.checked.find(parameter.name);
  if (found == input.checked.end()) return "every finite number";
  const auto [least, greatest] = found->second;
  std::string words =
      least == greatest ? fmt::format("{}", least) : fmt::format("from {} to {}", least, greatest);
  const auto usual = parameter.fallback ? parameter.fallback->evaluate({}) : Expected<double>(least);
  if (!usual || *usual < least || *usual > greatest)
    words += usual ? fmt::format(", or {}", *usual) : ", or " + parameter.fallback->text();
  return words;
}

// An expression that is true if the kernel was checked with values such as that of the parameter.
Expected<std::string> value_test(const LauncherInput& input, const Parameter& parameter) {
  const std::string name = variable(parameter.name);
  if (parameter.flag) return fmt::format("{0} == 0.0 || {0} == 1.0", name);
  const auto found = input.checked.find(parameter.name);
  if (found == input.checked.end()) return fmt::format("std::isfinite({})", name);
  const auto [least, greatest] = found->second;
  // A call's value was rounded to the parameter's type.
  std::string test = fmt::format("({0} >= {1} && {0} <= {2})", name,
                                 literal(std::min(least, round_to(parameter.type, least))),
                                 literal(std::max(greatest, round_to(parameter.type, greatest))));
  if (!parameter.fallback) return test;
  if (const auto usual = parameter.fallback->evaluate({}); usual && *usual >= least && *usual <= greatest)
    return test;
  const auto cpp = to_cpp(*parameter.fallback);
  if (!cpp) return cpp;
  return fmt::format("{0} || (std::isfinite({1}) && {3}({1}) == {3}({2}))", test, name, *cpp,
                     parameter.type == Dtype::f64 ? "double" : "float");
}

}  // namespace

std::string words_of_parameters(const LauncherInput& input) {
  std::vector<std::string> words;
  for (const Parameter& parameter : input.task.parameters)
    words.push_back(parameter.name + ' ' + words_of_values(input, parameter));
  return fmt::format("{}", fmt::join(words, "; "));
}

Expected<std::string> requirements(const LauncherInput& input, bool on_this_device, Otherwise otherwise) {
  const std::string& task = input.task.name;
  const auto refused = [&](const std::string& message) {
    return otherwise == Otherwise::throws ? fmt::format("throw Unsupported({})", message) : "return false";
  };
  std::string text;
  for (const auto& dimension : input.task.dimensions) {  // kernels use 32-bit sizes
    const std::string name = variable(dimension.name);
    text += fmt::format("    if (!({0} >= 1.0 && {0} <= 2147483647.0)) {1};\n", name,
                        refused(fmt::format("\"{}: {} is \" + extent_text({})", task, dimension.name, name)));
  }
  for (const Parameter& parameter : input.task.parameters) {
    const auto test = value_test(input, parameter);
    if (!test) return test;
    text += fmt::format(
        "    if (!({0})) {1};\n", *test,
        refused(fmt::format(
            "\"{}: {} is \" + number_text({}) + \", but {} {}\"", task, parameter.name,
            variable(parameter.name),
            input.checked.contains(parameter.name) ? "kernels are checked only with values" : "must be",
            in_quotes(words_of_values(input, parameter)))));
  }
  for (const auto& tensor : input.task.tensors)
    text += fmt::format(
        "    if (!({0} <= {1}.0)) {2};\n", elements_of(tensor), most_elements_of(input, tensor),
        refused(fmt::format("\"{0}: the tensor {1} would have \" + number_text({2}) + \" elements, but "
                            "this kernel was checked only with up to {3} in it: split the call\"",
                            task, tensor.name, elements_of(tensor), most_elements_of(input, tensor))));
  for (const WorkspaceSpec& workspace : input.variant.manifest.workspace) {
    const auto bytes = to_cpp(workspace.bytes);
    if (!bytes) return tl::make_unexpected(bytes.error());
    text += fmt::format(
        "    if (!(({0}) <= {1}.0)) {2};\n", *bytes, kUncheckedBytes,
        refused(fmt::format("\"{0}: the workspace {1} would have \" + number_text({2}) + \" bytes, but no "
                            "kernel is checked beyond {3}: split the call\"",
                            task, workspace.name, *bytes, kUncheckedBytes)));
  }
  for (const auto& [dimension, most] : input.longest)
    text += fmt::format(
        "    if (!({0} <= {1:.1f})) {2};\n", variable(dimension), most,
        refused(fmt::format("\"{0}: {1} is \" + number_text({2}) + \", but kernels are checked only up to "
                            "{3:.0f}\"",
                            task, dimension, variable(dimension), most)));
  std::vector<std::pair<const Expression*, std::string>> all;
  for (const auto& relation : input.task.where)
    all.emplace_back(&relation, fmt::format("{}: needs {}", task, relation.text()));
  if (const auto& claim = input.variant.manifest.requires_)
    all.emplace_back(&*claim, fmt::format("{}: this kernel needs {}", task, claim->text()));
  if (on_this_device)
    for (const auto& constraint : input.variant.manifest.constraints)
      all.emplace_back(&constraint,
                       fmt::format("{}: the constraint '{}' is not satisfied for these sizes on this device",
                                   task, constraint.text()));
  for (const auto& [expression, message] : all) {
    const auto cpp = to_cpp(*expression);
    if (!cpp) return tl::make_unexpected(cpp.error());
    text += fmt::format("    if (({}) == 0.0) {};\n", *cpp, refused('"' + message + '"'));
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
      "    const bytes_t sizes{{{}}};\n{}"
      "    [[maybe_unused]] const auto places = {};\n",
      fmt::join(sizes, ", "), between, room);
}

namespace {

std::string test_of(const Specialisation& specialisation) {
  std::vector<std::string> tests;
  for (const auto& [name, value] : specialisation.condition)
    tests.push_back(value == std::floor(value)  // a non-integer macro is a float
                        ? fmt::format("{} == {}", variable(name), literal(value))
                        : fmt::format("float({}) == float({})", variable(name), literal(value)));
  return tests.empty() ? "true" : fmt::format("{}", fmt::join(tests, " && "));
}

}  // namespace

std::string choice_of_specialisation(const std::vector<Specialisation>& served,
                                     const std::vector<std::string>& bodies, std::string_view late) {
  std::string text;
  for (std::size_t s = 0; s < served.size(); ++s)
    text += fmt::format("    {}if ({}) {{\n{}", s ? "} else " : "", test_of(served[s]), bodies.at(s));
  return text + fmt::format("    }} else {{\n{}    }}\n", late);
}

Expected<std::string> acceptance(const LauncherInput& input, const std::vector<Specialisation>& served,
                                 bool on_this_device, std::string (*fact)(const std::string&, double)) {
  const auto bound = name_bindings(input, fact);
  const auto required = requirements(input, on_this_device, Otherwise::returns_false);
  if (!bound || !required) return bound ? required : bound;
  std::vector<std::string> tests;
  for (const Specialisation& each : served) tests.push_back('(' + test_of(each) + ')');
  return fmt::format("{}{}    return {};\n", *bound, *required, fmt::join(tests, " ||\n           "));
}

Expected<std::string> specialisation_names(const LauncherInput& input,
                                           const std::vector<Specialisation>& served, std::string_view late,
                                           std::string (*fact)(const std::string&, double)) {
  auto text = name_bindings(input, fact);
  if (!text) return text;
  for (const Specialisation& each : served)
    *text += fmt::format("    if ({}) return \"{}\";\n", test_of(each), each.suffix);
  return *text + fmt::format(
                     "    for (const late_t& each : late_)\n"
                     "      if (each.values == {}) return each.name.c_str();\n"
                     "    return nullptr;\n",
                     late);
}

Expected<Plan> plan_of_each_launch(const LauncherInput& input) {
  Variant variant = input.variant;
  for (KernelLaunch& launch : variant.manifest.launch) {
    if (launch.when)  // where it does not run, its numbers may be none that it could run with
      for (auto& [key, values] : launch.keys) std::ranges::fill(values, Expression::constant(1));
    launch.when.reset();
    if (launch.repeat) launch.repeat = Expression::constant(1);
  }
  return make_plan(variant, input.task, input.workloads.front(), input.facts);
}

std::string ExpressionWriter::cpp(const Expression& expression) {
  const auto text = to_cpp(expression);
  if (!text) note(text.error().message);
  return text.value_or("0.0");
}

std::string ExpressionWriter::value(const PlannedArgument& planned, const ArgumentSpec& spec) {
  const auto parsed = Expression::parse(spec.text);
  if (!parsed) note(parsed.error().message);
  return scalar(planned.type, parsed ? cpp(*parsed) : "0.0", "the argument '" + spec.text + "' of a kernel");
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
