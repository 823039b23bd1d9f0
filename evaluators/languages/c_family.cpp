// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/c_family.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cultivar {
namespace {

bool is_keyword(std::string_view name) {
  constexpr std::string_view keywords =
      " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t "
      "char8_t "
      "class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit "
      "continue "
      "decltype default delete do double dynamic_cast else enum explicit export extern false float for "
      "friend "
      "goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private "
      "protected public register reinterpret_cast requires return short signed sizeof static static_assert "
      "static_cast struct switch template this thread_local throw true try typedef typeid typename union "
      "unsigned using virtual void volatile wchar_t while xor xor_eq ";
  return keywords.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

std::string literal(Dtype type, double value) {
  if (!is_floating(type)) return fmt::format("{}", static_cast<std::int64_t>(value));
  const bool f64 = type == Dtype::f64;
  std::string text =
      f64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(round_to(type, value)));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return f64 ? text : text + "f";
}

std::string parameter_type(const Parameter& parameter) {
  if (parameter.type == Dtype::f64) return "double";
  return is_floating(parameter.type) ? "float" : size_of(parameter.type) == 8 ? "long long" : "int";
}

}  // namespace

LanguageTraits c_family() {
  LanguageTraits row;
  row.types = {"double",         "float",          "_Float16",
               "unsigned short", "long long",      "int",
               "short",          "signed char",    "unsigned long long",
               "unsigned",       "unsigned short", "unsigned char",
               "unsigned char",  "unsigned char"};
  row.literal = literal;
  row.reserves = is_keyword;
  return row;
}

SeedFrame seed_frame(const Task& task, const LanguageTraits& language, std::string_view elements) {
  SeedFrame frame;
  const auto add = [&](const std::string& name, std::string_view type) {
    frame.arguments.push_back(name);
    frame.parameters.push_back(fmt::format("{} {}", type, name));
  };
  for (const TensorSpec& tensor : task.tensors)
    add(tensor.name,
        fmt::format("{}{}*", tensor.role == Role::input ? "const " : "",
                    tensor.dtype ? language.types.at(static_cast<std::size_t>(*tensor.dtype)) : elements));
  for (const Dimension& dimension : task.dimensions) add(dimension.name, "int");
  for (const Parameter& parameter : task.parameters) add(parameter.name, parameter_type(parameter));
  frame.rows = task.rows.empty() ? "1" : task.rows.front();
  return frame;
}

std::string seed_source(const Task& task, const LanguageTraits& language, Target target,
                        const std::string& name, const SeedFrame& frame, std::string_view keys,
                        std::string_view launch_keys, std::string_view includes, std::string_view qualifiers,
                        std::string_view loop) {
  std::string shapes;
  for (const TensorSpec& tensor : task.tensors)
    shapes += fmt::format(
        "//   {} [{}] ({})\n", tensor.name, fmt::join(tensor.shape, ", "),
        tensor.role == Role::input ? "input" : "output: every element must be written in every run");
  return fmt::format(
      "{}\nname: {}\ntask: {}\ntarget: {}\nabout: \"The idea of this seed, in one line.\"\n{}"
      "launch:\n  - kernel: {}\n{}    args: [{}]\n{}\n\n"
      "// {}.\n// Tensors are contiguous, in the order of dimensions that is given here:\n{}"
      "// The format of this file: README.md of Cultivar's folder evaluators.\n{}"
      "\n{} void {}({}) {{\n{}    // Compute the outputs of this row here.\n    (void)row;\n  }}\n}}\n",
      language.comments.manifest_opening(), name, task.name, name_of(target), keys, task.name, launch_keys,
      fmt::join(frame.arguments, ", "), language.comments.manifest_closing(), task.summary, shapes, includes,
      qualifiers, task.name, fmt::join(frame.parameters, ", "), loop);
}

}  // namespace cultivar
