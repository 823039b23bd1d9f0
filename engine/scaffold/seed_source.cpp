// SPDX-License-Identifier: Apache-2.0
#include "engine/scaffold/seed_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "evaluators/launchers/render.hpp"

namespace cultivar {
namespace {

std::string elements_of_a_row(const Task& task, const std::string& row) {
  const TensorSpec* output = nullptr;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role == Role::input) continue;
    if (output == nullptr) output = &tensor;
    if (std::ranges::find(tensor.shape, row) == tensor.shape.end()) continue;
    output = &tensor;
    break;
  }
  std::vector<std::string> shape = output != nullptr ? output->shape : std::vector<std::string>{};
  std::erase(shape, row);
  return shape.empty() ? "1" : fmt::format("{}", fmt::join(shape, " * "));
}

// `space`: the address space of a pointer, where the language wants one.
std::vector<std::string> parameters(const Task& task, Language language, std::string_view own,
                                    std::string_view space = {}) {
  const auto type_of = [&](Dtype dtype) { return language->types.at(static_cast<std::size_t>(dtype)); };
  std::vector<std::string> all;
  for (const TensorSpec& tensor : task.tensors)
    all.push_back(fmt::format("{}{}{}* {}", space, tensor.role == Role::input ? "const " : "",
                              tensor.dtype ? type_of(*tensor.dtype) : own, tensor.name));
  for (const Dimension& dimension : task.dimensions) all.push_back("int " + dimension.name);
  for (const Parameter& parameter : task.parameters) {
    const bool wide = size_of(parameter.type) == 8;
    const Dtype type =
        is_floating(parameter.type) ? (wide ? Dtype::f64 : Dtype::f32) : (wide ? Dtype::i64 : Dtype::i32);
    all.push_back(fmt::format("{} {}", type_of(type), parameter.name));
  }
  return all;
}

}  // namespace

std::string seed_source(const Task& task, Language language, Target target, const std::string& name) {
  std::vector<std::string> arguments;
  std::string shapes;
  for (const TensorSpec& tensor : task.tensors) {
    arguments.push_back(tensor.name);
    shapes += fmt::format(
        "{}   {} [{}] ({})\n", language->comments.line, tensor.name, fmt::join(tensor.shape, ", "),
        tensor.role == Role::input ? "input" : "output: every element must be written in every run");
  }
  for (const Dimension& dimension : task.dimensions) arguments.push_back(dimension.name);
  for (const Parameter& parameter : task.parameters) arguments.push_back(parameter.name);
  const std::string rows = task.rows.empty() ? "1" : task.rows.front();
  const auto listed = [](const std::vector<std::string>& all) {
    return fmt::format("{}", fmt::join(all, ", "));
  };
  return render(language->frame,
                {{"name", name},
                 {"task", task.name},
                 {"target", name_of(target)},
                 {"summary", task.summary},
                 {"shapes", shapes},
                 {"arguments", listed(arguments)},
                 {"parameters", listed(parameters(task, language, "DTYPE"))},
                 {"f32_parameters", listed(parameters(task, language, "float"))},
                 {"global_f32_parameters", listed(parameters(task, language, "float", "__global "))},
                 {"rows", rows},
                 {"elements", elements_of_a_row(task, rows)}});
}

}  // namespace cultivar
