// Seeds that a variant cannot know: fresh from the kernel's random source at every evaluation, and one stream
// for each purpose derived from it, so that the one number reported repeats the whole evaluation.
#pragma once

#include <cstdint>
#include <string_view>

namespace cultivar {

std::uint64_t secret_seed();  // never 0
// A seed for (purpose, index): the same for the same three arguments, unrelated otherwise.
std::uint64_t derive_seed(std::uint64_t seed, std::string_view purpose, std::uint64_t index = 0);

}  // namespace cultivar
