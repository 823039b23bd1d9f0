// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/memory_limit.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>

#include "evaluators/system/files.hpp"
#include "evaluators/system/lines.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// The number in the line "KEY NUMBER".
std::optional<std::uint64_t> number_of(const std::string& text, std::string_view key) {
  for (const std::string_view line : lines_of(text))
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ')
      return whole_number(line.substr(key.size() + 1));
  return std::nullopt;
}

// This process's cgroup (v2), as in /proc/self/cgroup: "0::/user.slice/x".
std::string own_cgroup() {
  const auto text = read_file("/proc/self/cgroup");
  if (!text) return {};
  for (const std::string_view line : lines_of(*text))
    if (line.starts_with("0::/")) return std::string(line.substr(3));
  return {};
}

fs::path folder_of(const std::string& cgroup) {
  return fs::path("/sys/fs/cgroup") / fs::path(cgroup).relative_path();
}

std::string bytes_in_words(double bytes) {
  const double gib = bytes / (1 << 30);
  return gib >= 1.0 ? fmt::format("{:.1f} GiB", gib) : fmt::format("{:.0f} MiB", bytes / (1 << 20));
}

}  // namespace

std::uint64_t out_of_memory_kills() {
  if (const std::string cgroup = own_cgroup(); !cgroup.empty())
    if (const auto events = read_file(folder_of(cgroup) / "memory.events"))
      if (const auto kills = number_of(*events, "oom_kill")) return *kills;
  const auto machine = read_file("/proc/vmstat");
  return machine ? number_of(*machine, "oom_kill").value_or(0) : 0;
}

std::string memory_limit_in_words() {
  // The nearest limit applies; a cgroup without one has that of its parent.
  for (std::string cgroup = own_cgroup(); !cgroup.empty() && cgroup != "/";
       cgroup = fs::path(cgroup).parent_path().string())
    if (const auto limit = read_file(folder_of(cgroup) / "memory.max"))
      if (const auto bytes = whole_number(*limit))
        return fmt::format("the memory limit of {} (cgroup {})", bytes_in_words(static_cast<double>(*bytes)),
                           cgroup);
  const double all =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return fmt::format("the {} of this machine", bytes_in_words(all));
}

}  // namespace cultivar
