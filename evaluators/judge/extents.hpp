// SPDX-License-Identifier: Apache-2.0
// How far drawn shapes go from the listed ones, in each dimension and amount.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/task/task.hpp"

namespace cultivar {

// The least and the greatest value that a drawn shape gives a parameter that is not off: those among the
// listed values that are not its default, or half and twice the only one. nullopt if it is no amount: a flag,
// an integer whose listed values are consecutive (a choice among forms), a number that is not optional (drawn
// near the shape's own), or one that no listed shape gives.
std::optional<std::pair<double, double>> amounts_of(const Task&, const Parameter&);

// Of each dimension, the longest that checks look at: four times as long as listed anywhere, or 2^21, where
// outputs do not sum over it.
std::map<std::string, double> longest_extents(const Task&);

// Dimensions over which outputs sum, each with the longest that checks look at. They grow little: the
// rounding of long sums is not what a task permits.
std::map<std::string, double> longest_sums(const Task&);

// Dimensions of the rows, of which every output has a row for each value, each with its greatest listed
// value: they may grow far beyond that.
std::vector<std::pair<std::string, double>> far_dimensions(const Task&);

}  // namespace cultivar
