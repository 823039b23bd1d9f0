// SPDX-License-Identifier: Apache-2.0
// A run with more than 2^31 elements, in which 32-bit offsets wrap around, in memory that repeats: a tensor's
// address range shows the same few megabytes again and again, so equal rows of the inputs give equal rows of
// the outputs wherever they lie. The last rows, beyond 2^31 elements, have memory and values of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "evaluators/devices/device.hpp"
#include "evaluators/judge/cascade.hpp"
#include "evaluators/judge/requests.hpp"

namespace cultivar {

// A workload of which rows repeat, and how each buffer of its plan does.
struct LargeShape {
  Workload workload;  // with all its rows
  Workload distinct;  // with the rows that have memory of their own, in the same order
  std::string dimension;
  std::int64_t period = 0, repeats = 0, tail = 0;  // rows: period * repeats + tail
  std::int64_t elements = 0;                       // of the largest tensor
};

// A shape that the variant claims, whose rows are independent of each other and of their number (told by the
// oracle), and that costs at most `most_flops`; nullopt: there is none.
std::optional<LargeShape> large_shape(const Task&, const TaskReference&, const Compiled&, const Facts&,
                                      std::size_t least_period, double most_flops);

// The shape of a variant's large check.
std::optional<Workload> largest_workload(const CascadeSite&, const Compiled&);

// The bytes of each buffer of its plan that repeat.
std::vector<Repetition> repetitions_of(const Task&, const LargeShape&);

struct LargeCheck {
  std::int64_t elements = 0;        // of the largest tensor of a run that was right; 0: none
  std::optional<Evaluation> wrong;  // the kernel is refused
};
// Run by the build in which overflow of signed integers ends a run, by a plan for a machine with many cores,
// where there are such; if that is too slow, by the ordinary build on this machine, which promises nothing.
// What cannot be run (no such shape, a target that cannot, too slow, too little memory) refuses nothing.
LargeCheck check_large(const CascadeSite&, const Compiled&, std::uint64_t seed);

// Runs the overflow build on shapes in which two dimensions that no tensor has together multiply to more than
// 2^32, such as the queries and the keys of attention, and three to as much as tensors of 2^31 - 1 bytes
// allow, such as those of a matrix product: kernels that divide work compute such products. The runs are
// short, and time-outs refuse nothing. nullopt: all that ended were right.
std::optional<Evaluation> check_products(const CascadeSite&, const Compiled&, std::uint64_t seed);

inline constexpr double kLargeCheckSeconds = 90.0;  // at most, on a busy machine

}  // namespace cultivar
