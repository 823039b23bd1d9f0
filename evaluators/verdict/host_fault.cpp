// SPDX-License-Identifier: Apache-2.0
#include "evaluators/verdict/host_fault.hpp"

#include <algorithm>
#include <array>

namespace cultivar {
namespace {

struct Known {
  std::string_view name, words;
  bool may_be_the_variants;
};
constexpr std::array<Known, 8> kKnown{{{"killed", "a process was killed from outside", false},
                                       {"out_of_memory", "memory ran out", true},
                                       {"memory_held", "other programs hold the device's memory", false},
                                       {"cache_lost", "the compiled kernel is no longer in the cache", false},
                                       {"cache_unwritable", "the cache cannot be written", false},
                                       {"busy", "the machine is too busy for these times", true},
                                       {"launcher_failed", "the launcher started no worker", false},
                                       {"worker_lost", "the worker was lost", true}}};
static_assert(kKnown.size() == static_cast<std::size_t>(HostFault::worker_lost) + 1);

const Known& known(HostFault fault) {
  return kKnown.at(static_cast<std::size_t>(fault));
}

}  // namespace

std::string_view name_of(HostFault fault) {
  return known(fault).name;
}
std::string_view words_of(HostFault fault) {
  return known(fault).words;
}
bool may_be_the_variants(HostFault fault) {
  return known(fault).may_be_the_variants;
}

std::optional<HostFault> host_fault_named(std::string_view name) {
  const auto* const found = std::ranges::find(kKnown, name, &Known::name);
  if (found == kKnown.end()) return std::nullopt;
  return static_cast<HostFault>(found - kKnown.begin());
}

}  // namespace cultivar
