// SPDX-License-Identifier: Apache-2.0
// Seeds that a variant cannot predict: new from the kernel's random source for every evaluation, with one
// derived stream for each purpose, so that the single reported seed reproduces the whole evaluation.
#pragma once

#include <cstdint>
#include <string_view>

namespace cultivar {

std::uint64_t secret_seed();  // never 0
// A seed for (purpose, index): equal for equal arguments, otherwise unrelated.
std::uint64_t derive_seed(std::uint64_t seed, std::string_view purpose, std::uint64_t index = 0);

}  // namespace cultivar
