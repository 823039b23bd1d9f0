// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/random.hpp"

namespace cultivar {

std::uint64_t name_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3U;
  }
  return hash;
}

namespace {

__extension__ using Wide = unsigned __int128;

// SplitMix64's finalizer (Steele, Lea & Flood 2014): neighboring steps get unrelated streams.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

RandomStream stream_of(std::uint64_t run_seed, std::string_view name, std::uint64_t step) {
  return RandomStream(mixed(mixed(run_seed) ^ mixed(name_hash(name)) ^ mixed(~step)));
}

std::size_t below(RandomStream& stream, std::size_t bound) {
  // Multiply-shift method: the bias is bound / 2^64.
  return static_cast<std::size_t>((static_cast<Wide>(stream()) * bound) >> 64);
}

double uniform(RandomStream& stream) {
  return static_cast<double>(stream() >> 11) * 0x1p-53;
}

}  // namespace cultivar
