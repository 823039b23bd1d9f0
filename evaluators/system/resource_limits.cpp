// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/resource_limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "evaluators/system/memory_limit.hpp"

namespace cultivar {
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
