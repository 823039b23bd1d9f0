// Shapes that are drawn from a secret seed for one evaluation, so that no kernel can be right only on the
// shapes that its task lists. They are near listed ones: of the same order of size and arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "evaluators/task/task.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Limits of one drawn shape.
struct ShapeLimits {
  double flops = 0.0;  // by the task's cost
  double bytes = 0.0;  // of all tensors together
};
// The greatest flops and bytes among these workloads, times `factor`.
ShapeLimits limits_of(const Task&, std::span<const Workload>, double factor);

// Up to `count` different shapes that the task does not list, that the variant claims and that are `usable`,
// each drawn near one of `around`. Fewer if they are hard to find, as where the variant claims only
// multiples of a large tile.
std::vector<Workload> draw_shapes(const Task&, const Variant&, std::span<const Workload> around,
                                  const ShapeLimits&, std::size_t count, std::uint64_t seed,
                                  const std::function<bool(const Workload&)>& usable);

// The first of the listed shapes that the variant does not claim although it claims, in one dimension, at
// least half of the smaller ones and half of the larger ones: `requires` that leaves out a shape between
// those that it claims avoids a check and describes no property of the kernel. Those other shapes are between
// half and twice as long in that dimension, by multiples of the same power of two (or of one that is small
// against it).
std::optional<Workload> singled_out(const Task&, const Variant&, std::span<const Workload> listed,
                                    std::uint64_t seed);

}  // namespace cultivar
