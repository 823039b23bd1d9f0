// SPDX-License-Identifier: Apache-2.0
// Shapes that are drawn from a secret seed for one evaluation, so that no kernel can be right only on the
// shapes that its task lists. They are near listed ones: of the same order of size and arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/judge/extents.hpp"
#include "evaluators/judge/foci.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Limits of one drawn shape.
struct ShapeLimits {
  double flops = 0.0;  // by the task's cost
  double bytes = 0.0;  // of all tensors together
};
// Shapes of which tens take seconds; and where no smaller one shows what is to be checked.
inline constexpr ShapeLimits kMediumShapes{2e8, 0x1p25}, kLargestShapes{2e10, 0x1p30};
// Beyond them, for a device with memory of its own.
inline constexpr ShapeLimits kDeviceShapes{8e10, 0x1p32};
// The greatest flops and bytes among these workloads, times `factor`.
ShapeLimits limits_of(const Task&, std::span<const Workload>, double factor);

// Whether a list of the task gives this shape (with any dtype).
bool is_listed(const Task&, const Workload&);

// Up to `count` different shapes that the task does not list, that the variant claims and that are `usable`,
// each drawn near one of `around`. Fewer if they are hard to find, as where the variant claims only
// multiples of a large tile.
std::vector<Workload> draw_shapes(const Task&, const Variant&, std::span<const Workload> around,
                                  const ShapeLimits&, std::size_t count, std::uint64_t seed,
                                  const std::function<bool(const Workload&)>& usable);

// Shapes at these foci, one for each where one can be found that is claimed, `usable` and within the limits;
// at most `count`. They may be listed ones.
std::vector<Workload> draw_focused_shapes(const Task&, const Variant&, std::span<const Workload> around,
                                          const ShapeLimits&, std::span<const Focus>, std::size_t count,
                                          std::uint64_t seed,
                                          const std::function<bool(const Workload&)>& usable);

// Draws up to `attempts` claimed shapes within the limits and hands each to `use`, until that returns false:
// from one row to the longest that checks look at (longest_extents), or as far as the limits allow
// (`anything`), of sizes near these numbers, equal sizes and multiples of each other, so that most conditions
// between dimensions have both outcomes. They may be listed ones, and need not be usable.
void draw_anywhere(const Task&, const Variant&, std::span<const Workload> around, const ShapeLimits&,
                   std::span<const double> numbers, bool anything, std::size_t attempts, std::uint64_t seed,
                   const std::function<bool(const Workload&)>& use);

// Shapes of the same macros as `like`, each near one of `around` where that is possible: of all that the
// variant specializes it has the value of `like`. For stress cases of a specialisation. Beyond the limits
// only if no smaller shape with these macros was found.
std::vector<Workload> draw_shapes_like(const Task&, const Variant&, std::span<const Workload> around,
                                       const ShapeLimits&, const Workload& like, std::size_t count,
                                       std::uint64_t seed);

// As above, but with one dimension of the rows beyond its greatest listed value, by a factor of up to
// kFarFactor, and the others small enough for the limits. Dimensions that a row sums over do not grow: an
// error may grow with them.
inline constexpr double kFarFactor = 16.0;
std::vector<Workload> draw_far_shapes(const Task&, const Variant&, std::span<const Workload> around,
                                      const ShapeLimits&, std::size_t count, std::uint64_t seed,
                                      const std::function<bool(const Workload&)>& usable);
// Shapes near timed ones of which the largest tensor has a few elements more than a number of the source that
// no other check exceeds (2^22 to 2^28): one for each of the two greatest such numbers, if its work is within
// that of kLargestShapes; dimensions that this tensor lacks are shortened for that. Costly: hundreds of
// megabytes.
std::vector<Workload> draw_large_counts(const Task&, const Variant&, std::span<const Workload> timed,
                                        std::uint64_t seed,
                                        const std::function<bool(const Workload&)>& usable);

}  // namespace cultivar
