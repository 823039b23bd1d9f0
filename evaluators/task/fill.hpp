// SPDX-License-Identifier: Apache-2.0
// Generates the values of an input tensor from a distribution and a secret seed. Counter-based and therefore
// deterministic for a seed, whatever the number of threads, so the host can regenerate any input from (fill,
// seed, tensor).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "evaluators/dtype/dtype.hpp"
#include "evaluators/expression/expression.hpp"

namespace cultivar {

inline constexpr int kAllAxes = 1 << 16;

struct Fill {
  enum class Kind {
    normal,    // mean a, standard deviation b
    uniform,   // in [a, b)
    constant,  // every element is a (only in stress cases, never the plain fill of a task)
    spread,    // random sign * a * exp(uniform(-b, b)): extreme range
    rising,    // b * normal + a * (index along `axis`) / extent: a running maximum that rises with every tile
    outliers,  // a * normal, but b times as large on one line along `axis` in a hundred, and in an eighth of
               // all if they are fewer; always on at least one
    hot,       // a * normal, but b times as large at one random index along `axis`
    one_hot,   // for each index of the other axes b at one random position along `axis`, otherwise a
    same_rows,  // one random row (normal a, b) repeated along `axis`
    // Whole numbers, of any dtype that can represent them.
    integers,     // in [a, b); a `share` of them is `instead`
    permutation,  // for each index of the other axes a + a random permutation of 0 ... extent - 1
    lengths,      // along `axis` at least a each, with the sum b
    offsets,      // along `axis` from 0 to b in steps of at least a: the running sums of `lengths`
  };
  Kind kind = Kind::normal;
  double a = 0.0, b = 1.0;
  int axis = -1;  // negative: counted from the end; kAllAxes: the whole tensor is one line
  double instead = 0.0, share = 0.0;
  // These replace the number of the same name; of a workload's numbers. Task::fill evaluates them.
  std::optional<Expression> a_of = {}, b_of = {}, instead_of = {};
  friend bool operator==(const Fill&, const Fill&) = default;
};

inline bool is_whole(Fill::Kind kind) {
  return kind >= Fill::Kind::integers;
}

// The elements of a line along the axis.
std::int64_t extent_along(int axis, std::span<const std::int64_t> shape);

// Fills `out`, which has one element of `dtype` per element of `shape`, rounded to nearest even.
// The fill's numbers must be known (Task::fill). `place`: determines the index of `hot`, so that tensors may
// share it; nullopt: `seed` does.
void fill_tensor(const Fill&, std::uint64_t seed, std::span<const std::int64_t> shape, Dtype,
                 std::span<std::byte> out, std::optional<std::uint64_t> place = {});

// Whole numbers for index tensors: integers, permutations, lengths and offsets. Private to this folder.

// One line of a tensor along the axis of its fill; the bits depend only on the seed. The fill must be one of
// whole numbers.
void fill_line(const Fill&, std::uint64_t seed, std::span<double> line);

// Why the fill has no values for an axis of this extent and this dtype; empty: it has.
std::string trouble_of(const Fill&, std::int64_t extent, Dtype);

}  // namespace cultivar
