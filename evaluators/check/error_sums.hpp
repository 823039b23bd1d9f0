// SPDX-License-Identifier: Apache-2.0
// Errors of compared elements, summed by row, and what of them the tolerance allows. Private to this folder.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <limits>

#include "evaluators/check/compare.hpp"

namespace cultivar {

bool same_non_finite(double a, double b);
// The size from which on an infinity of the same sign is a right answer for an exact value: a few roundings
// below what the dtype cannot hold. Infinite for dtypes without infinities.
double overflow_of(Dtype);
bool right_overflow(double got, double want, double overflow);
// Infinite if there is an error but none is allowed.
double ratio_of(double error, double allowed);

struct ErrorSums {
  // `wrong_non_finite`: values of which one is not finite and that are not equal; of outputs of whole
  // numbers, values that are not equal.
  double max = 0.0, square_sum = 0.0, reference_max = 0.0, reference_square_sum = 0.0;
  std::int64_t count = 0, wrong_non_finite = 0;
  double overflow = std::numeric_limits<double>::infinity();  // overflow_of the output's dtype

  void add(std::span<const double> got, std::span<const double> want);
  void add(double got, double want);
  // Of an output of whole numbers, to which the oracle's values are rounded.
  void add_integers(Dtype, std::span<const double> got, std::span<const double> want);
  void add(const ErrorSums& other);
  double rms() const;
  double reference_rms() const;
};

// The greater of each norm.
LegalError greater(const LegalError&, const LegalError&);

// Error divided by allowed error: of the maximum or the RMS, whichever is greater. `allowed_max`: the allowed
// maximum.
double error_ratio(const Tolerance&, Dtype, const ErrorSums& errors, const ErrorSums& legal,
                   const LegalError& at_least, double* allowed_max);

// Where each block of these rows of a group begins, and the end as last entry. A last block of only a few
// rows has no error scale of its own, so it is merged with the preceding block.
std::vector<std::size_t> block_starts(const RowGroup&, std::span<const std::int64_t> rows,
                                      std::int64_t block_rows);

// The elements of one output, by row.
class OutputRows {
 public:
  OutputRows(const RowLayout& layout, const OutputLayout& output, std::span<const std::byte> bytes);

  std::size_t row_size() const { return output_.element_offsets.size(); }
  std::int64_t place(std::int64_t row, std::size_t e) const {
    return layout_.base(output_, row) + output_.element_offsets[e];
  }
  double element(std::int64_t row, std::size_t e) const;
  // `exact`: the oracle's elements of this output in this row.
  ErrorSums errors(std::int64_t row, std::span<const double> exact) const;

 private:
  static constexpr std::size_t kPart = 512;  // elements that are decoded at a time
  void decode_part(std::int64_t row, std::size_t first, std::span<double> out) const;

  const RowLayout& layout_;
  const OutputLayout& output_;
  std::span<const std::byte> bytes_;
  bool contiguous_;  // the elements of a row lie side by side
};

// Some of a list of rows, and where their values begin in those of the list.
struct ChangedRows {
  std::vector<std::int64_t> rows;
  std::vector<std::size_t> values;
};
// Wherever the kernel's whole number is not the oracle's but right as well, writes it in place of the
// oracle's, and what follows from it in place of what follows from that. `exact`: the values of these rows.
// Stops asking once an answer is wrong. The rows that it changed.
ChangedRows accept_right_indices(const RowLayout&, std::span<const std::vector<std::byte>> outputs,
                                 std::span<const std::int64_t> rows, std::span<double> exact,
                                 const IndexRule&);
// The same rows of another function of the oracle's, such as its roundings: what follows from the whole
// numbers in `exact`.
void follow_indices(const RowLayout&, const ChangedRows&, RowFunction, std::span<const double> exact,
                    std::span<double> values, const IndexRule&);
bool has_integers(const RowLayout&);

// Calls of(i) for each row i of that many, with several threads if there are many elements.
void for_each_row(std::size_t rows, std::size_t elements, const std::function<void(std::size_t)>& of);

}  // namespace cultivar
