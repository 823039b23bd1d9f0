// SPDX-License-Identifier: Apache-2.0
// The numbers in a variant's text: what its code and its manifest may compare a dimension or a value with. A
// mistake often begins at such a number, so shapes and values are drawn around them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

struct SourceNumbers {
  std::vector<std::int64_t> compared;  // beside a comparison, a division or a remainder
  std::vector<std::int64_t> others;
  // The name on the other side of a comparison, and the number: ("D", 128) of `D % 128 != 0`.
  std::vector<std::pair<std::string, std::int64_t>> named;
  // Sizes of real numbers beside a comparison (twice), or after `=`, from 2^-126 to 2^128, and of whole
  // numbers below zero beside a comparison (`> -18`): values may be compared with them.
  std::vector<double> thresholds;
  // Numbers that stand together in braces, such as {768, 3072, 256}: rows of a table.
  std::vector<std::vector<std::int64_t>> rows;
  // What `&&` joins, as in `C > 5000 && C % 24 == 23`: numbers, and remainders (24, 23).
  struct Condition {
    std::vector<std::int64_t> numbers;
    std::vector<std::pair<std::int64_t, std::int64_t>> remainders;
  };
  std::vector<Condition> conditions;
  std::vector<std::int64_t> factors;  // of a name beside a comparison, as in `N == 4 * K`; at most 64
};

// Between 2 and 2^40, in ascending order, each in one list. Products, sums and shifts of numbers, tunables
// and named constants count by their value: `4 * LANES`, `1 << 16`. By the text alone, comments left out;
// dead branches count. At most kMostSourceNumbers in a list, the smallest.
inline constexpr std::size_t kMostSourceNumbers = 256;
SourceNumbers source_numbers(const Variant&);
// Those that stand in a piece of text, as they stand there, in their order.
std::vector<std::int64_t> literals_in(std::string_view text, const CommentSyntax&);

}  // namespace cultivar
