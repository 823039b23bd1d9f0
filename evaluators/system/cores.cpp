// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/cores.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

namespace cultivar {
namespace {

// Equal for the hardware threads of one physical core; a core without this information counts as a physical
// core.
std::string physical_core(int core) {
  std::ifstream in(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", core));
  std::string siblings;
  return std::getline(in, siblings) ? siblings : std::to_string(core);
}

}  // namespace

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) cores.push_back(i);
  return cores;
}

void stay_on_cores(int count) {
  std::vector<int> cores = usable_cores();
  std::reverse(cores.begin(), cores.end());  // the first core serves interrupts
  std::set<std::string> taken;
  std::stable_partition(cores.begin(), cores.end(),
                        [&](int core) { return taken.insert(physical_core(core)).second; });
  if (static_cast<std::size_t>(count) >= cores.size()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < count; ++i) CPU_SET(static_cast<std::size_t>(cores[static_cast<std::size_t>(i)]), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace cultivar
