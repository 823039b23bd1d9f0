// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/memory_limit.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "evaluators/system/files.hpp"
#include "evaluators/system/lines.hpp"
#include "evaluators/system/resource_limits.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

const fs::path kCgroups = "/sys/fs/cgroup";

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

// Where a version of cgroups keeps what it knows of memory.
struct Hierarchy {
  std::string cgroup;  // this process's: "/user.slice/x"
  fs::path root;       // below the mount
  const char *limit, *events;
};

// From /proc/self/cgroup: "0::/user.slice/x" (v2), "4:memory:/x" or "4:cpu,memory:/x" (v1).
std::vector<Hierarchy> hierarchies(const std::string& own_cgroups) {
  std::vector<Hierarchy> found;
  for (const std::string_view line : lines_of(own_cgroups)) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string cgroup(line.substr(second + 1));
    if (line.starts_with("0::"))
      found.push_back({cgroup, ".", "memory.max", "memory.events"});
    else if (controllers.find(",memory,") != controllers.npos)
      found.push_back({cgroup, "memory", "memory.limit_in_bytes", "memory.oom_control"});
  }
  return found;
}

double machine_bytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::string bytes_in_words(double bytes) {
  const double gib = bytes / (1 << 30);
  return gib >= 1.0 ? fmt::format("{:.1f} GiB", gib) : fmt::format("{:.0f} MiB", bytes / (1 << 20));
}

std::uint64_t out_of_memory_kills() {
  for (const Hierarchy& each : hierarchies(read_file("/proc/self/cgroup").value_or("")))
    if (const auto events =
            read_file(kCgroups / each.root / fs::path(each.cgroup).relative_path() / each.events))
      if (const auto kills = number_of(*events, "oom_kill")) return *kills;
  const auto machine = read_file("/proc/vmstat");
  return machine ? number_of(*machine, "oom_kill").value_or(0) : 0;
}

MemoryLimit memory_limit(const std::string& own_cgroups, const fs::path& cgroup_files, double machine) {
  MemoryLimit lowest{machine, fmt::format("the {} of this machine", bytes_in_words(machine))};
  // A limit holds for all below it. In a container the path may be that of the host, which only the root of
  // the files shows.
  for (const Hierarchy& each : hierarchies(own_cgroups))
    for (fs::path cgroup = each.cgroup;; cgroup = cgroup.parent_path()) {
      const auto limit = read_file(cgroup_files / each.root / cgroup.relative_path() / each.limit);
      const auto bytes = limit ? whole_number(*limit) : std::nullopt;  // "max": none
      if (bytes && static_cast<double>(*bytes) < lowest.bytes) {
        lowest.bytes = static_cast<double>(*bytes);
        lowest.words =
            fmt::format("the memory limit of {} (cgroup {})", bytes_in_words(lowest.bytes), cgroup.string());
      }
      if (!cgroup.has_relative_path()) break;
    }
  return lowest;
}

MemoryLimit memory_limit() {
  return memory_limit(read_file("/proc/self/cgroup").value_or(""), kCgroups, machine_bytes());
}

MemoryLimit memory_limit_of_a_process() {
  MemoryLimit lowest = memory_limit();
  if (const auto addresses = limit_in_force(RLIMIT_AS);
      addresses && static_cast<double>(*addresses) < lowest.bytes) {
    lowest.bytes = static_cast<double>(*addresses);
    lowest.words =
        fmt::format("the {} of addresses that this shell allows (ulimit -v)", bytes_in_words(lowest.bytes));
  }
  return lowest;
}

}  // namespace cultivar
