// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/random.hpp"

#include <sys/random.h>

#include <cerrno>
#include <stdexcept>

namespace cultivar {
namespace {

std::uint64_t finalised(std::uint64_t x) {  // the finaliser of splitmix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

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

std::uint64_t secret_seed() {
  std::uint64_t seed = 0;
  while (seed == 0) {
    const ssize_t n = getrandom(&seed, sizeof seed, 0);
    if (n < 0 && errno != EINTR) throw std::runtime_error("getrandom failed, so there is no secret seed");
    if (n != static_cast<ssize_t>(sizeof seed)) seed = 0;
    seed &= (std::uint64_t{1} << 53) - 1;  // 53 bits are exact in every JSON reader
  }
  return seed;
}

std::uint64_t derive_seed(std::uint64_t seed, std::string_view purpose, std::uint64_t index) {
  std::uint64_t state = finalised(seed);
  for (const char c : purpose) state = finalised(state ^ static_cast<unsigned char>(c));
  return finalised(state ^ finalised(index));
}

}  // namespace cultivar
