// SPDX-License-Identifier: Apache-2.0
// Whole numbers for index tensors: integers, permutations, lengths and offsets. Private to this folder.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "evaluators/task/fill.hpp"

namespace cultivar {

// One line of a tensor along the axis of its fill; the bits depend only on the seed. The fill must be one of
// whole numbers.
void fill_line(const Fill&, std::uint64_t seed, std::span<double> line);

// Why the fill has no values for an axis of this extent and this dtype; empty: it has.
std::string trouble_of(const Fill&, std::int64_t extent, Dtype);

}  // namespace cultivar
