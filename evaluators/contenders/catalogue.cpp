#include "evaluators/contenders/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/contenders/built.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPrefix = "libcultivar-contender-";

struct Shipped {
  const char *name, *task, *target, *absent;
};

std::string listing(const std::vector<KnownContender>& all, const std::vector<std::string>& sources) {
  std::string text;
  for (const std::string& source : sources) text += fmt::format("\n  {}: a source of the task", source);
  for (const KnownContender& c : all)
    if (c.library.empty())
      text += fmt::format("\n  {} (absent): {}", c.name, c.absent);
    else
      text += fmt::format(
          "\n  {}: {}", c.name,
          c.task.empty() ? c.library.string() : fmt::format("a library for {} on {}", c.task, c.target));
  return text.empty() ? "\n  none" : text;
}

}  // namespace

std::string misfit(const KnownContender& known, const std::string& task, std::string_view target) {
  if (known.task.empty() || (known.task == task && known.target == target)) return {};
  return fmt::format("'{}' is for the task {} on {}, but this is {} on {}", known.name, known.task,
                     known.target, task, target);
}

std::vector<KnownContender> known_contenders(const fs::path& programs) {
  const bool installed = programs.parent_path().filename() == "libexec";
  const fs::path folder = (programs / (installed ? "../../lib/cultivar" : "../lib")).lexically_normal();
  std::error_code ignored;
  std::vector<KnownContender> all;
  for (const Shipped& shipped :
       {Shipped{"cublas", "matmul", "cuda", kCublasAbsent},
        Shipped{"cudnn", "attention_forward", "cuda", kCudnnAbsent},
        Shipped{"flash_attention_3", "attention_forward", "cuda", kFlashAttention3Absent}}) {
    KnownContender known{shipped.name, shipped.task, shipped.target, {}, {}};
    const fs::path file = folder / fmt::format("{}{}.so", kPrefix, shipped.name);
    if (fs::exists(file, ignored))
      known.library = file;
    else
      known.absent = *shipped.absent != '\0'
                         ? std::string(shipped.absent)
                         : fmt::format("{} is missing; build all targets of Cultivar", file.string());
    all.push_back(std::move(known));
  }
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".so" || !entry.path().stem().string().starts_with(kPrefix)) continue;
    const std::string name = name_of_library(entry.path());
    if (std::ranges::none_of(all, [&](const KnownContender& c) { return c.name == name; }))
      all.push_back({name, {}, {}, entry.path(), {}});
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

std::string name_of_library(const fs::path& file) {
  const std::string whole = file.filename().string();
  const std::string stem = whole.substr(0, whole.rfind(".so"));
  for (const std::string_view prefix : {std::string_view(kPrefix), std::string_view("lib")})
    if (stem.starts_with(prefix) && stem.size() > prefix.size()) return stem.substr(prefix.size());
  return stem;
}

fs::path find_contender_library(const std::string& text, const fs::path& base, const fs::path& programs,
                                const std::vector<std::string>& sources) {
  std::error_code ignored;
  if (names_a_library_file(text)) {
    const fs::path path = fs::absolute(base / text, ignored).lexically_normal();
    if (!fs::is_regular_file(path, ignored))
      throw InputError(fmt::format("no such file: {} (check the path)", path.string()));
    return path;
  }
  const std::vector<KnownContender> all = known_contenders(programs);
  for (const KnownContender& known : all) {
    if (known.name != text) continue;
    if (known.library.empty())
      throw InputError(fmt::format("the contender '{}' is not available: {}", text, known.absent));
    return known.library;
  }
  std::vector<std::string> names = sources;
  for (const KnownContender& known : all) names.push_back(known.name);
  const std::string near = nearest_name(text, names);
  throw InputError(fmt::format(
      "unknown contender '{}'{}. Known:{}\nor give the path of a source or of a "
      "library (.so)",
      text, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), listing(all, sources)));
}

}  // namespace cultivar
