// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/trace_comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "evaluators/devices/cuda/code/geometry.hpp"

namespace cultivar::cuda {
namespace {

using Shape = std::array<std::int64_t, 6>;  // grid, block

Shape shape_of(const auto& grid, const auto& block) {
  Shape shape{};
  std::copy_n(std::begin(grid), 3, shape.begin());
  std::copy_n(std::begin(block), 3, shape.begin() + 3);
  return shape;
}

}  // namespace

std::optional<Fault> compare_trace(const Plan& plan, bool foreign, const std::vector<TracedKernel>& seen,
                                   double event_seconds) {
  if (seen.empty()) return std::nullopt;  // CUPTI had no buffer for the records, so nothing is known
  std::vector<Shape> wanted, found;
  std::vector<std::string> words;
  for (const PlannedKernel& kernel : plan.kernels) {
    const Geometry geometry(kernel.launch);
    wanted.push_back(shape_of(geometry.grid, geometry.block));
  }
  double begin = 0.0, end = 0.0;
  for (const TracedKernel& kernel : seen) {
    // The judge's own; the compiler refuses kernels with such names.
    if (kernel.name.starts_with("cultivar_")) continue;
    begin = found.empty() ? kernel.begin_s : std::min(begin, kernel.begin_s);
    end = found.empty() ? kernel.end_s : std::max(end, kernel.end_s);
    found.push_back(shape_of(kernel.grid, kernel.block));
    words.push_back(fmt::format("{} of {} blocks of {}", kernel.name, fmt::join(kernel.grid, " x "),
                                fmt::join(kernel.block, " x ")));
  }
  if (foreign && found.empty()) return std::nullopt;  // only copies
  std::ranges::sort(wanted);
  std::ranges::sort(found);
  if (wanted != found && !foreign) {
    if (std::ranges::includes(wanted, found)) return std::nullopt;
    return Fault{
        Fault::Kind::forbidden_call,
        fmt::format("the kernels that ran are not those of the plan; CUPTI saw: {}", fmt::join(words, ", "))};
  }
  // Event times also include the gaps between kernels and the zeroing of workspaces.
  const double span = end - begin;
  if (event_seconds < 0.95 * span - 5e-6 || event_seconds > 2.0 * span + 500e-6)
    return Fault{Fault::Kind::idle_activity,
                 fmt::format("the kernels took {:.1f} us by CUPTI's records but {:.1f} us by CUDA events",
                             1e6 * span, 1e6 * event_seconds)};
  return std::nullopt;
}

}  // namespace cultivar::cuda
