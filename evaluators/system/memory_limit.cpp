// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/memory_limit.hpp"

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <string_view>

#include "evaluators/system/files.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

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

namespace {

// Compilers were seen to need less than half of this.
constexpr std::size_t kNeededAddresses = std::size_t{1} << 30;
// Below these, whoever set the limit may not have thought of hours of work and of records of them.
constexpr std::size_t kAmpleFile = std::size_t{4} << 30;

rlimit limit_of(int resource) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  return limit;
}

std::string option_of(int resource) {
  switch (resource) {
    case RLIMIT_AS:
      return "ulimit -v";
    case RLIMIT_CPU:
      return "ulimit -t";
    case RLIMIT_FSIZE:
      return "ulimit -f";
    case RLIMIT_NOFILE:
      return "ulimit -n";
    default:
      return "ulimit";
  }
}

std::string amount_in_words(int resource, std::size_t amount) {
  if (resource == RLIMIT_CPU) return fmt::format("{} s", amount);
  if (resource == RLIMIT_NOFILE) return fmt::format("{}", amount);
  return bytes_in_words(static_cast<double>(amount));
}

}  // namespace

std::optional<std::size_t> limit_in_force(int resource) {
  const rlimit limit = limit_of(resource);
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

std::size_t within_limit_in_force(int resource, std::size_t wanted) {
  return std::min(wanted, limit_in_force(resource).value_or(wanted));
}

std::string limit_in_words(int resource, std::size_t wanted) {
  const std::size_t limit = within_limit_in_force(resource, wanted);
  const std::string words = amount_in_words(resource, limit);
  return limit < wanted ? fmt::format("{} ({})", words, option_of(resource)) : words;
}

void raise_open_files() {
  constexpr rlim_t kUsual = 1024;
  rlimit limit = limit_of(RLIMIT_NOFILE);
  if (limit.rlim_cur >= kUsual) return;
  limit.rlim_cur = std::min(limit.rlim_max, kUsual);
  ::setrlimit(RLIMIT_NOFILE, &limit);  // if it fails, tight_limits() tells of the limit that remains
}

std::vector<TightLimit> tight_limits() {
  std::vector<TightLimit> found;
  const auto add = [&](int resource, bool fatal, const std::string& text) {
    found.push_back({option_of(resource), fatal, fmt::format("{} ({})", text, option_of(resource))});
  };
  if (const auto files = limit_in_force(RLIMIT_NOFILE); files && *files < kNeededFiles)
    add(RLIMIT_NOFILE, true,
        fmt::format("this shell allows {} open files; Cultivar needs {}", *files, kNeededFiles));
  if (const auto bytes = limit_in_force(RLIMIT_AS); bytes && *bytes < kNeededAddresses)
    add(RLIMIT_AS, true,
        fmt::format("this shell allows each process {} of addresses; a compiler needs {}",
                    amount_in_words(RLIMIT_AS, *bytes), amount_in_words(RLIMIT_AS, kNeededAddresses)));
  if (const auto seconds = limit_in_force(RLIMIT_CPU))
    add(RLIMIT_CPU, false,
        fmt::format("this shell allows each process {} s of processor time; the system ends a search, or a "
                    "worker, that has used them",
                    *seconds));
  if (const auto bytes = limit_in_force(RLIMIT_FSIZE); bytes && *bytes < kAmpleFile)
    add(RLIMIT_FSIZE, false,
        fmt::format("this shell allows files of at most {}; the record of a search, and the inputs or the "
                    "outputs of a workload, cannot be larger",
                    amount_in_words(RLIMIT_FSIZE, *bytes)));
  return found;
}

}  // namespace cultivar
