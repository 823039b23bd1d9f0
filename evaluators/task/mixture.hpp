// SPDX-License-Identifier: Apache-2.0
// Changes of filled inputs. Secret mixtures are patterns over the values of a tensor's fill, such as trained
// models have, at secret places and of secret sizes. A kernel that judges by a few values how tame all of
// them are is then wrong. A stress case, by contrast, has the same pattern everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evaluators/task/task.hpp"

namespace cultivar {

// Plants one to three patterns in one input, of
//   outlier  a slice or box times 3 to 16 (an outlier key row, a hot column)
//   offset   a slice or box plus or minus 8 to 32 deviations of the fill
//   equal    a run of equal values
//   spike    one value of 16 to 256 deviations in the last eighth of every axis
//   stress   a box filled as one of the task's stress cases fills this tensor
//   ordered  whole numbers (integers, permutations) that follow each other, but for one to three in a line
// and a run of equal values, or such an order, in some of the others: a product of large values of several
// tensors would leave outputs that rounding decides. Values keep the domain of the fill: those of a uniform
// fill stay in its range, and other fills than normal, spread and uniform only get stress boxes. `inputs`:
// the bytes of the task's inputs, in order. Returns a description, one line for each pattern.
std::string mix_values(const Task&, const Workload&, std::uint64_t seed,
                       std::span<std::vector<std::byte>> inputs);

// Makes inputs that round differently and are otherwise alike: changes every value of the floating inputs by
// up to about a thousandth or, in coarser types, one unit in the last place: by a factor that the seed and
// the value decide, so that equal values stay equal and large ones stay where they are. Zeros and non-finite
// values stay. `inputs`: the bytes of the task's inputs, in order; derived ones are left alone.
void perturb_values(const Task&, const Workload&, std::uint64_t seed,
                    std::span<std::vector<std::byte>> inputs);

}  // namespace cultivar
