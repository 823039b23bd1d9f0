// SPDX-License-Identifier: Apache-2.0
// How far drawn shapes go from the listed ones, in each dimension and amount.
#pragma once

#include <cstdint>
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

// Whether whole numbers of an input are indices below this dimension: a table, of which an output reads some
// entries.
bool is_indexed(const Task&, const std::string& dimension);

// Of each dimension, the longest that checks look at: four times as long as listed anywhere, or 2^21, where
// outputs do not sum over it.
std::map<std::string, double> longest_extents(const Task&);

// Dimensions over which outputs sum, each with the longest that checks look at. They grow little: the
// rounding of long sums is not what a task permits.
std::map<std::string, double> longest_sums(const Task&);

// Up to where an export accepts a dimension: as far as checks look, in sums as far as longest_sums says.
// Narrow rows are not checked beyond that either: the rows that repeat beyond 2^31 elements are wide.
std::map<std::string, double> accepted_extents(const Task&);

// Of each parameter that is no flag, the least and the greatest value that checks give it: the range that the
// task states, amounts_of(), or near the listed ones. Its default is checked in any case.
std::map<std::string, std::pair<double, double>> checked_parameters(const Task&);

// How much more than listed shapes a drawn one is permitted (1: no more), given the greatest listed values of
// dimensions over which outputs sum: rounding errors of sums grow with the square root of their length, and
// the greatest error of millions of elements lies further out than that of thousands.
std::map<std::string, double> listed_sums(const Task&);
double wider_errors(const Task&, const Workload&, const std::map<std::string, double>& listed_sums);

// Dimensions of the rows, of which every output has a row for each value, each with its greatest listed
// value: they may grow far beyond that.
std::vector<std::pair<std::string, double>> far_dimensions(const Task&);

// The first dimension that is the outermost of every tensor that has it, and a row dimension of every output:
// the one along which check_large repeats rows. Empty: none.
std::string repeated_dimension(const Task&);

// Of each tensor, up to how many elements a kernel was checked whose checks reached `largest` elements
// (Evaluation::largest_elements; 0: none beyond 2^31): so many if its rows repeat there, otherwise 2^31 - 1
// bytes, where offsets of 32 bits begin to wrap around.
std::map<std::string, std::int64_t> most_elements(const Task&, const Workload&, std::int64_t largest);

}  // namespace cultivar
