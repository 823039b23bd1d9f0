// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/device_facts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "evaluators/system/cores.hpp"

namespace cultivar {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// The size of the data or unified cache of a level, as one core sees it; 0 if unknown.
double cache_bytes(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    if (first_line(folder + "level") != std::to_string(level) || first_line(folder + "type") == "Instruction")
      continue;
    const std::string size = first_line(folder + "size");
    if (size.empty()) continue;
    const double unit = size.back() == 'K' ? 1024.0 : size.back() == 'M' ? 1048576.0 : 1.0;
    return std::atof(size.c_str()) * unit;
  }
  static constexpr int names[] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  const long bytes = ::sysconf(names[level]);
  return bytes > 0 ? static_cast<double>(bytes) : 0.0;
}

double vector_bits() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return 512.0;
  if (__builtin_cpu_supports("avx2")) return 256.0;
#endif
  return 128.0;
}

}  // namespace

std::string processor_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

Facts cpu_facts() {
  const double l1 = cache_bytes(1), l2 = cache_bytes(2), l3 = cache_bytes(3);
  return {{"num_cores", static_cast<double>(usable_cores().size())},
          {"l1_bytes", l1 > 0 ? l1 : 32768.0},
          {"l2_bytes", l2 > 0 ? l2 : 1048576.0},
          {"l3_bytes", l3 > 0   ? l3
                       : l2 > 0 ? l2
                                : 1048576.0},
          {"vector_bits", vector_bits()},
          {"page_bytes", static_cast<double>(::sysconf(_SC_PAGESIZE))}};
}

}  // namespace cultivar
