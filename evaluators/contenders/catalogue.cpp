// SPDX-License-Identifier: Apache-2.0
#include "evaluators/contenders/catalogue.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "evaluators/system/error.hpp"
#include "evaluators/target/language.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPrefix = "libcultivar-contender-";

struct Shipped {
  const char* name;
  std::vector<std::string> tasks;
  const char *target, *absent;
};

std::string listing(const std::vector<KnownContender>& all, const std::vector<std::string>& sources) {
  std::string text;
  for (const std::string& source : sources) text += fmt::format("\n  {}: a source of the task", source);
  for (const KnownContender& c : all)
    if (c.library.empty())
      text += fmt::format("\n  {} (absent): {}", c.name, c.absent);
    else
      text += fmt::format("\n  {}: {}", c.name,
                          !c.program.empty() ? "PyTorch's own computation, by the task's pytorch.py"
                          : c.tasks.empty()
                              ? c.library.string()
                              : fmt::format("a library for {} on {}", fmt::join(c.tasks, ", "), c.target));
  return text.empty() ? "\n  none" : text;
}

}  // namespace

std::string misfit(const KnownContender& known, const std::string& task, std::string_view target) {
  if (known.tasks.empty() ||
      (std::ranges::find(known.tasks, task) != known.tasks.end() && known.target == target))
    return {};
  return fmt::format("'{}' is for the task {} on {}, but this is {} on {}", known.name,
                     fmt::join(known.tasks, " and "), known.target, task, target);
}

std::vector<KnownContender> known_contenders(const fs::path& programs) {
  const bool installed = programs.parent_path().filename() == "libexec";
  const fs::path folder = (programs / (installed ? "../../lib/cultivar" : "../lib")).lexically_normal();
  std::error_code ignored;
  std::vector<KnownContender> all;
  for (const Shipped& shipped :
       {Shipped{"clblast", {"matmul", "transpose"}, "opencl", kClblastAbsent},
        Shipped{"cublas", {"matmul", "linear"}, "cuda", kCublasAbsent},
        Shipped{"cudnn", {"attention_forward", "rmsnorm_backward"}, "cuda", kCudnnAbsent},
        Shipped{"flash_attention_3",
                {"attention_forward", "attention_backward"},
                "cuda",
                kFlashAttention3Absent}}) {
    KnownContender known{shipped.name, {}, shipped.tasks, shipped.target, {}, {}};
    const fs::path file = folder / fmt::format("{}{}.so", kPrefix, shipped.name);
    if (fs::exists(file, ignored))
      known.library = file;
    else
      known.absent = *shipped.absent != '\0'
                         ? std::string(shipped.absent)
                         : fmt::format("{} is missing; build all targets of Cultivar", file.string());
    all.push_back(std::move(known));
  }
  const fs::path python = folder / fmt::format("{}python.so", kPrefix);
  for (const char* program : {"torch", "torch_compile"}) {
    KnownContender known{program, program, {}, {}, {}, {}};
    if (fs::exists(python, ignored))
      known.library = python;
    else
      known.absent = fmt::format("{} is missing; build all targets of Cultivar", python.string());
    all.push_back(std::move(known));
  }
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path() == python) continue;
    if (entry.path().extension() != ".so" || !entry.path().stem().string().starts_with(kPrefix)) continue;
    const std::string name = name_of_library(entry.path());
    if (std::ranges::none_of(all, [&](const KnownContender& c) { return c.name == name; }))
      all.push_back({name, {}, {}, {}, entry.path(), {}});
  }
  std::ranges::sort(all, {}, &KnownContender::name);
  return all;
}

bool names_a_library_file(const std::string& text) {
  const std::string name = fs::path(text).filename().string();
  if (name.ends_with(".so")) return true;
  const std::size_t so = name.rfind(".so.");  // libx.so.1.2
  return so != std::string::npos && so + 4 < name.size() &&
         name.find_first_not_of("0123456789.", so + 4) == std::string::npos;
}

bool names_a_program(const std::string& text) {
  return fs::path(text).extension() == ".py" && !fs::path(text).stem().empty() &&
         language_of_file(text) == nullptr;
}

std::string name_of_library(const fs::path& file) {
  if (names_a_program(file.string())) return file.stem().string();
  const std::string whole = file.filename().string();
  const std::string stem = whole.substr(0, whole.rfind(".so"));
  for (const std::string_view prefix : {std::string_view(kPrefix), std::string_view("lib")})
    if (stem.starts_with(prefix) && stem.size() > prefix.size()) return stem.substr(prefix.size());
  return stem;
}

ContenderFile find_contender_library(const std::string& text, const fs::path& base, const fs::path& programs,
                                     const std::vector<std::string>& sources) {
  std::error_code ignored;
  const std::vector<KnownContender> all = known_contenders(programs);
  if (names_a_library_file(text) || names_a_program(text)) {
    const fs::path path = fs::absolute(base / text, ignored).lexically_normal();
    if (!fs::is_regular_file(path, ignored))
      throw InputError(fmt::format("no such file: {} (check the path)", path.string()));
    if (!names_a_program(text)) return {path};
    const auto host = std::ranges::find(all, std::string("torch"), &KnownContender::program);
    if (host->library.empty())
      throw InputError(fmt::format("{} cannot be run: {}", path.string(), host->absent));
    return {host->library, path.string()};
  }
  for (const KnownContender& known : all) {
    if (known.name != text) continue;
    if (known.library.empty())
      throw InputError(fmt::format("the contender '{}' is not available: {}", text, known.absent));
    return {known.library, known.program};
  }
  std::vector<std::string> names = sources;
  for (const KnownContender& known : all) names.push_back(known.name);
  const std::string near = nearest_name(text, names);
  throw InputError(fmt::format(
      "unknown contender '{}'{}. Known:{}\nor give the path of a source or of a "
      "library (.so), or of a Python program (.py)",
      text, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), listing(all, sources)));
}

}  // namespace cultivar
