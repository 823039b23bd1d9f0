// SPDX-License-Identifier: Apache-2.0
// Named random streams, one for each (run, island, step), so that a decision can be reproduced from the
// record; and seeds that a variant cannot predict. The draws are implemented here because the standard
// distributions differ between libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string_view>
#include <utility>

namespace cultivar {

using RandomStream = std::mt19937_64;

// FNV-1a, 64 bits: for names and keys, not for identity.
std::uint64_t name_hash(std::string_view text);

RandomStream stream_of(std::uint64_t run_seed, std::string_view name, std::uint64_t step);

std::size_t below(RandomStream&, std::size_t bound);  // uniform in [0, bound); bound > 0
double uniform(RandomStream&);                        // [0, 1)

template <class Range>
void shuffle(Range&& all, RandomStream& stream) {
  for (std::size_t i = std::size(all); i > 1; --i) std::swap(all[i - 1], all[below(stream, i)]);
}

// Seeds that a variant cannot predict. A new one from the kernel's random source for every evaluation, with
// one derived seed for each purpose, so that the single reported seed reproduces the whole evaluation.
std::uint64_t secret_seed();  // never 0
// A seed for (purpose, index): equal for equal arguments, otherwise unrelated.
std::uint64_t derive_seed(std::uint64_t seed, std::string_view purpose, std::uint64_t index = 0);

}  // namespace cultivar
