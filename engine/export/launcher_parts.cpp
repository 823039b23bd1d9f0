#include "engine/export/launcher_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "engine/export/cpp_expression.hpp"

namespace cultivar {

std::string literal(double value) {
  return fmt::format("{}", value).find_first_of(".en") == std::string::npos ? fmt::format("{}.0", value)
                                                                            : fmt::format("{:.17g}", value);
}

std::string_view cpp_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return "double";
    case Dtype::f32:
      return "float";
    case Dtype::i64:
      return "std::int64_t";
    case Dtype::i32:
      return "std::int32_t";
    case Dtype::i16:
      return "std::int16_t";
    case Dtype::i8:
      return "std::int8_t";
    case Dtype::u64:
      return "std::uint64_t";
    case Dtype::u32:
      return "std::uint32_t";
    case Dtype::u16:
    case Dtype::f16:
    case Dtype::bf16:
      return "std::uint16_t";
    case Dtype::u8:
      return "std::uint8_t";
  }
  return "void";
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
    const auto values = input.task.bindings(workload);
    for (const auto& name : input.variant.manifest.specialize) {
      const auto it = values.find(name);
      if (name == "dtype" || it == values.end()) continue;
      candidate.condition.emplace_back(name, it->second);
      auto text = fmt::format("{}{:g}", name, it->second);
      std::replace_if(
          text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
      candidate.suffix += (candidate.suffix.empty() ? "" : "_") + text;
    }
    if (candidate.suffix.empty()) candidate.suffix = "any";
    result.push_back(std::move(candidate));
  }
  return result;
}

std::string argument_members(const LauncherInput& input, std::string_view (*pointee)(Dtype)) {
  std::string members;
  for (const auto& dimension : input.task.dimensions)
    members += fmt::format("  std::int64_t {} = 1;  // {}\n", dimension.name, dimension.about);
  for (const auto& parameter : input.task.parameters)
    members += fmt::format("  {} {} = {};  // {}\n", parameter.flag ? "bool" : cpp_type(parameter.type),
                           parameter.name, parameter.flag ? "false" : "0", parameter.about);
  for (const auto& tensor : input.task.tensors) {
    const Dtype dtype = input.task.dtype(tensor, input.workloads.front());
    members +=
        fmt::format("  {}{}* {} = nullptr;  // {} [{}], {}\n", tensor.role == Role::input ? "const " : "",
                    pointee(dtype), tensor.name, tensor.role == Role::input ? "in" : "out",
                    fmt::join(tensor.shape, ", "), name_of(dtype));
  }
  return members;
}

Expected<std::string> name_bindings(const LauncherInput& input,
                                    std::string (*fact)(const std::string&, double)) {
  std::string text;
  const auto bind = [&](const std::string& name, const std::string& value) {
    text += fmt::format("    [[maybe_unused]] const double {} = {};\n", name, value);
  };
  for (const auto& dimension : input.task.dimensions)
    bind(dimension.name, fmt::format("double(arguments.{})", dimension.name));
  for (const auto& parameter : input.task.parameters)
    bind(parameter.name, fmt::format("double(arguments.{})", parameter.name));
  for (int i = 0; i <= static_cast<int>(Dtype::u8); ++i)
    bind(std::string(name_of(static_cast<Dtype>(i))), literal(i));
  const Dtype dtype = input.workloads.front().dtype;
  bind("dtype", std::string(name_of(dtype)));
  bind("element_bytes", literal(static_cast<double>(size_of(dtype))));
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

Expected<std::string> workspace_places(const LauncherInput& input, std::string_view room) {
  std::vector<std::string> sizes;
  for (const WorkspaceSpec& workspace : input.variant.manifest.workspace) {
    auto cpp = to_cpp(workspace.bytes);
    if (!cpp) return cpp;
    sizes.push_back(
        fmt::format("std::size_t(whole({}, \"the size of workspace {}\"))", *cpp, workspace.name));
  }
  return fmt::format(
      "    const std::vector<std::size_t> sizes{{{}}};\n"
      "    [[maybe_unused]] const auto places = {};\n",
      fmt::join(sizes, ", "), room);
}

std::string choice_of_specialisation(const LauncherInput& input, const std::vector<Specialisation>& served,
                                     const std::vector<std::string>& bodies) {
  std::string text;
  std::vector<std::string> names;
  for (std::size_t s = 0; s < served.size(); ++s) {
    std::vector<std::string> tests;
    for (const auto& [name, value] : served[s].condition)
      tests.push_back(fmt::format("{} == {}", name, literal(value)));
    text += fmt::format("    {}if ({}) {{\n{}", s ? "} else " : "",
                        tests.empty() ? "true" : fmt::format("{}", fmt::join(tests, " && ")), bodies.at(s));
    names.push_back(served[s].suffix);
  }
  return text + fmt::format(
                    "    }} else {{\n      throw std::invalid_argument(\"{}: built for {} only\");\n    }}\n",
                    input.task.name, fmt::join(names, ", "));
}

}  // namespace cultivar
