// SPDX-License-Identifier: Apache-2.0
// Decides whether an output is correct: E <= factor * R + floor, where E is the error against the oracle and
// R the error of the permitted ("legal") roundings, for the maximum and the RMS, over everything compared and
// over each block of rows, so that no part of the elements may be arbitrarily wrong. The maximum of R is at
// least half a unit in the last place of the largest value. Non-finite values must be exactly where the
// oracle has them. Outputs of whole numbers must have the oracle's numbers exactly, or others that the task's
// is_right_index calls right.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/check/oracle.hpp"
#include "evaluators/references/rows.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// R of one output's rows: of all of them, and of each block.
struct BlockErrors {
  LegalError whole;
  std::vector<LegalError> blocks;
};

// What is compared: rows in increasing order; rows of a group with equal row / block_rows form a block.
struct ExpectedRows {
  std::span<const std::int64_t> rows;
  std::span<const double> exact;                 // the elements of each row, one row after the other
  std::function<std::vector<double>()> rounded;  // the same rows by the rounding model; called only if
                                                 // needed; empty if the task has no model (R = 0)
  // For small samples, whose own R varies by chance: R over more rows, by output. Called before `rounded`,
  // when an error exceeds the floor.
  std::function<std::vector<LegalError>()> wider = {};
  std::vector<BlockErrors> least = {};  // by output; R is at least this
  std::int64_t block_rows = 0;          // 0: the task's value
  IndexRule right_indices = {};
};

// The same for rows whose values together would take gigabytes: they are computed piece by piece. Blocks have
// the task's number of rows.
struct RowsInPieces {
  // Stores the values of these rows, one row after the other.
  using Compute = std::function<void(std::span<const std::int64_t> rows, std::span<double> out)>;
  std::span<const std::int64_t> rows;
  Compute exact, rounded;  // rounded: empty if the task has no model
  std::function<std::vector<LegalError>()> wider = {};
  // Where few roundings decide all values, R of one set of inputs varies by chance: R is at least the
  // greatest over further sets, of which each call draws one; none when there are no more. Called last, until
  // the outputs are right or too far off for chance.
  struct Similar {
    Compute exact, rounded;
  };
  std::function<std::optional<Similar>()> similar = {};
  std::size_t elements = std::size_t{4} << 20;  // of a piece
  IndexRule right_indices = {};
};

// R of these rows, by output.
std::vector<LegalError> legal_errors(const RowLayout&, std::span<const std::int64_t> rows,
                                     std::span<const double> exact, std::span<const double> rounded);

// The error of one output's rows (E), that of the permitted roundings on them (R), at least what rounding the
// exact values to the output's type costs, and the floor that the tolerance adds.
struct OutputErrors {
  LegalError error, legal, floor;
  // Of an output of whole numbers, whose errors above are all 0: how many are wrong, of how many.
  std::int64_t wrong = 0, integers = 0;
};
// By output; `rounded`: the rows by the rounding model, or the exact ones if the task has none. An error is
// infinite if a value is not finite where the oracle is, or vice versa.
std::vector<OutputErrors> output_errors(const Task&, const RowLayout&,
                                        std::span<const std::vector<std::byte>> outputs, const ExpectedRows&,
                                        const std::vector<double>& rounded);

struct Comparison {
  bool right = true;
  std::string reason;        // one line: "o differs from the oracle in 12 of 64 blocks of rows"
  std::string diagnostics;   // worst and first wrong elements, blocks, patterns
  double worst_ratio = 0.0;  // ratio of error to allowed error; at most 1 if correct (infinite if a
                             // non-finite value is misplaced)
  std::vector<std::int64_t>
      wrong_rows;  // in order, those of elements that are wrong; not all if there are many
};

Comparison compare(const Task&, const RowLayout&, std::span<const std::vector<std::byte>> outputs,
                   const ExpectedRows&);
Comparison compare_in_pieces(const Task&, const RowLayout&, std::span<const std::vector<std::byte>> outputs,
                             const RowsInPieces&);

// Tolerates only as many elements equal to this run's poison as chance explains: the matches expected from n
// random draws of their bits.
bool too_many_unwritten(const RowLayout&, std::size_t unwritten);
std::string describe_unwritten(const RowLayout&, std::size_t unwritten);

// Compares the outputs of two runs on the same inputs. Their bits must be equal, except in outputs for which
// the task permits a difference (`run_to_run`), as of sums by atomics: a share of the permitted error.
//
// What differs by more than the task permits, one line for each output; empty: nothing. `legal` gives R by
// output, and is called only if it is needed.
std::string run_to_run_differences(const Task&, const RowLayout&,
                                   std::span<const std::vector<std::byte>> first,
                                   std::span<const std::vector<std::byte>> second,
                                   const std::function<std::vector<LegalError>()>& legal);

}  // namespace cultivar
