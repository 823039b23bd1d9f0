// SPDX-License-Identifier: Apache-2.0
#include "engine/scaffold/task_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "embedded/scaffold.hpp"
#include "evaluators/expression/expression.hpp"
#include "evaluators/launchers/render.hpp"

namespace cultivar {

namespace {

bool is_name(const std::string& text) {
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text.front())) &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// Names that the sources of the new folder use themselves.
const std::set<std::string>& used_names() {
  static const std::set<std::string> names{"eps",     "rows",  "columns", "thread", "threads", "in",
                                           "out",     "sum",   "scale",   "row",    "c",       "piece",
                                           "pieces",  "first", "wide",    "args",   "root",    "count",
                                           "aligned", "BLOCK", "WARPS",   "DTYPE"};
  return names;
}

// A keyword of a language, or a name that a source cannot use for its own things.
bool means_something(std::string_view name) {
  return name == "main" || name == "std" ||
         std::ranges::any_of(languages(), [&](Language language) { return language->reserves(name); });
}

std::string joined(const std::vector<Dtype>& dtypes) {
  std::vector<std::string_view> names;
  for (const Dtype dtype : dtypes) names.push_back(name_of(dtype));
  return fmt::format("{}", fmt::join(names, ", "));
}

// Names become names of files and parts of them, of which file systems permit 255 bytes.
constexpr std::size_t kMostLetters = 64;

}  // namespace

std::string trouble_of(const TaskOutline& outline) {
  const auto& reserved = Expression::reserved_names();
  std::set<std::string> seen;
  for (const std::string& name :
       {outline.name, outline.rows, outline.columns, outline.input, outline.output}) {
    if (!is_name(name))
      return fmt::format("'{}' is not a name (use letters, digits and _, no digit first)", name);
    if (name.size() > kMostLetters)
      return fmt::format("the name '{}...' has {} letters (use at most {})", name.substr(0, 20), name.size(),
                         kMostLetters);
    if (means_something(name))
      return fmt::format("the name '{}' has a meaning in C++ or Python (choose another)", name);
    if (used_names().contains(name) || std::ranges::find(reserved, name) != reserved.end())
      return fmt::format("the name '{}' is used by the new folder's own files (choose another)", name);
    if (!seen.insert(name).second) return fmt::format("the name '{}' is given twice (choose another)", name);
  }
  if (outline.name == kFolderOfHeaders)
    return fmt::format(
        "'{}' cannot be a task: the folder of that name beside tasks holds headers that their "
        "seeds include (choose another name)",
        outline.name);
  if (outline.summary.find_first_of("\"\\\n") != std::string::npos || outline.summary.empty())
    return "the summary must be one line without quotes and backslashes";
  for (const Dtype dtype : outline.dtypes)
    if (dtype != Dtype::f32 && dtype != Dtype::f16 && dtype != Dtype::bf16)
      return fmt::format("the new seeds do not support {} (use f32, f16 and bf16, and change the files)",
                         name_of(dtype));
  if (std::ranges::find(outline.dtypes, Dtype::f32) == outline.dtypes.end())
    return "the dtypes must include f32, which the cpu seeds use (add f32)";
  return {};
}

std::map<std::string, std::string> task_files(const TaskOutline& outline) {
  std::vector<Dtype> every;
  for (int i = 0; i < dtype_count; ++i) every.push_back(static_cast<Dtype>(i));
  const bool bf16 = std::ranges::find(outline.dtypes, Dtype::bf16) != outline.dtypes.end();
  const std::map<std::string, std::string, std::less<>> values{
      {"name", outline.name},
      {"summary", outline.summary},
      {"rows", outline.rows},
      {"columns", outline.columns},
      {"input", outline.input},
      {"output", outline.output},
      {"all_dtypes", joined(every)},
      {"dtypes", joined(outline.dtypes)},
      {"gpu_dtype", std::string(name_of(bf16 ? Dtype::bf16 : outline.dtypes.front()))}};
  std::map<std::string, std::string> files;
  for (const auto& [path, text] : {std::pair<const char*, std::string_view>{"task.yaml", scaffold::task_yaml},
                                   {"reference.cpp", scaffold::reference_cpp},
                                   {"pytorch.py", scaffold::pytorch_py},
                                   {"search.yaml", scaffold::search_yaml}})
    files[path] = render(text, values);
  for (const Language language : languages())
    for (const auto& [name, text] : language->task_seeds)
      files[fmt::format("seeds/{}", name)] = render(text, values);
  return files;
}

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
