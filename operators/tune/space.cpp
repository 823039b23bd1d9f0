// SPDX-License-Identifier: Apache-2.0
#include "operators/tune/space.hpp"

#include <stdexcept>

namespace cultivar {

std::size_t PointHash::operator()(std::span<const int> point) const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a over the indices
  for (const int index : point) hash = (hash ^ static_cast<std::uint64_t>(index)) * 0x100000001b3U;
  return static_cast<std::size_t>(hash ^ (hash >> 29U));
}

std::uint64_t grid_size(const Space& space, std::uint64_t limit) {
  std::uint64_t size = 1;
  for (const Knob& knob : space.knobs) {
    const std::uint64_t values = knob.values.size();
    if (values != 0 && size > limit / values) return limit;
    size *= values;
  }
  return size < limit ? size : limit;
}

bool is_feasible(const Space& space, const Point& point) {
  return !space.feasible || space.feasible(point);
}

void require_on_grid(const Space& space, const Point& point) {
  if (point.size() != space.knobs.size())
    throw std::invalid_argument("a point with " + std::to_string(point.size()) +
                                " knobs does not fit a space with " + std::to_string(space.knobs.size()));
  for (std::size_t k = 0; k < point.size(); ++k)
    if (point[k] < 0 || static_cast<std::size_t>(point[k]) >= space.knobs[k].values.size())
      throw std::invalid_argument("knob " + space.knobs[k].name + " has no value of index " +
                                  std::to_string(point[k]));
}

}  // namespace cultivar
