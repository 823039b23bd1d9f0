// SPDX-License-Identifier: Apache-2.0
// Where drawn shapes shall lie: at the numbers of a source, between dimensions, at the longest extents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluators/task/task.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Where a drawn shape shall lie: one dimension or optional amount has this value, others are mostly small.
struct Focus {
  std::string name;
  double value = 0.0;
  // With `of`: the value is added to that other dimension's, or multiplied with it.
  enum class Relation { none, plus, times } relation = Relation::none;
  std::string of = {};
  bool compared = false;  // a number that the source or the manifest compares something with, or beside it
  // The other dimensions: as small as possible, two, mostly small, or those of a listed shape.
  enum class Others { least, two, small, listed } others = Others::small;
  std::string also = {};    // another dimension that has a value, too, which may be `of`; empty: none
  double also_value = 0.0;  // its value
};
// All that is worth looking at, in a secret order: around each number with which the source or the manifest
// may compare something (source_numbers.hpp), around powers of two, remainders of such numbers, differences
// and quotients of two dimensions, one more than what 16 and 20 bits hold for row dimensions. Of those that
// are `compared`, what one condition joins comes first, in turn with single numbers, then any two of them
// together: beyond one and with a remainder by another, or each in a dimension of its own.
std::vector<Focus> foci_of(const Task&, const Variant&, std::uint64_t seed);

// The rows of tables in the source, such as {768, 3072, 256}: the first two numbers in a
// dimension each, and neighbours among the first three in two; in a secret order. A table of tuned sizes
// decides by a whole row.
std::vector<Focus> table_foci(const Task&, const Variant&, std::uint64_t seed);

// For each dimension, alternatives in which it is the longest, the best first: up to longest_extents, less a
// few; the other dimensions as small as possible, mostly small, near those of a listed shape, or one of them
// at a number with which the source may compare it.
std::vector<std::vector<Focus>> longest_foci(const Task&, const Variant&, std::uint64_t seed);

// As above, for up to six pairs of dimensions, those of rows first: both are large together and of no special
// size, so that the number of what is dealt out and the number by which it is divided are.
std::vector<std::vector<Focus>> filled_foci(const Task&, std::uint64_t seed);
// For each dimension, up to 24 sizes of 2^10 to 2^17, beside few of all others, and more than one: what
// divides a counter by a number that follows from one dimension is wrong for some such numbers only. All of
// them are cheap.
std::vector<Focus> divisor_foci(const Task&, std::uint64_t seed);
// Lengths of tables, by whose indices an output reads some entries, nearly twice what 16 bits hold, two of
// all others: alone, and beside each other dimension at a number with which the source compares it, those
// that it names first. Up to eight.
std::vector<Focus> table_length_foci(const Task&, const Variant&, std::uint64_t seed);
// And two for each dimension that counts no rows, from 2^16 to 2^19: rows so long that what is left out of
// each element shows, and so short that rounding is much less.
std::vector<std::vector<Focus>> wide_foci(const Task&, std::uint64_t seed);

}  // namespace cultivar
