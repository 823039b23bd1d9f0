// Is an output right? E <= factor * R + floor, where E is the error against the oracle and R the error of the
// legal roundings, for the maximum and the RMS, over all that is compared and over each block of rows: no
// share of the elements may be arbitrarily wrong. The maximum of R is at least half a unit in the last place
// of the largest value. Non-finite values must stand exactly where the oracle has them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/check/oracle.hpp"
#include "evaluators/check/rows.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// What is compared: rows in increasing order; those that share row / block_rows form a block.
struct ExpectedRows {
  std::span<const std::int64_t> rows;
  std::span<const double> exact;                 // rows x row_elements
  std::function<std::vector<double>()> rounded;  // the same by the legal-rounding model; asked only when
                                                 // needed; empty: the task has none (R = 0)
  // For small samples, whose own R is a matter of luck: R over more rows, by output; asked when the floor
  // alone refuses, before `rounded`.
  std::function<std::vector<LegalError>()> wider = {};
  std::int64_t block_rows = 0;  // 0: the task's
};

// R of these rows, by output.
std::vector<LegalError> legal_errors(const RowLayout&, std::span<const double> exact,
                                     std::span<const double> rounded);

struct Comparison {
  bool right = true;
  std::string reason;       // one line: "o differs from the oracle in 12 of 64 blocks of rows"
  std::string diagnostics;  // worst and first wrong elements, blocks, patterns
  double worst_ratio =
      0.0;  // of error to what is allowed; at most 1 when right (infinite: a wrong non-finite position)
};

Comparison compare(const Task&, const RowLayout&, std::span<const std::vector<std::byte>> outputs,
                   const ExpectedRows&);

// How many elements may equal this run's poison by chance: as many as n draws of their bits give, and no
// more.
bool too_many_unwritten(const RowLayout&, std::size_t unwritten);
std::string describe_unwritten(const RowLayout&, std::size_t unwritten);

}  // namespace cultivar
