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
#include "evaluators/target/language.hpp"

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

}  // namespace cultivar
