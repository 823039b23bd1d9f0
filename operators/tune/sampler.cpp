#include "operators/tune/sampler.hpp"

#include <cstdlib>

namespace cultivar {

std::uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

int Random::below(std::size_t bound) {
  return static_cast<int>(((next() >> 32U) * static_cast<std::uint64_t>(bound)) >> 32U);
}

double Random::uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

Sampler::Sampler(const Space& space) : space_(&space) {
  if (grid_size(space, kEnumerated + 1) > kEnumerated) return;
  enumerated_ = true;
  Point point(space.knobs.size(), 0);
  for (;;) {
    if (is_feasible(space, point)) points_.push_back(point);
    std::size_t k = point.size();
    while (k > 0 && static_cast<std::size_t>(++point[k - 1]) == space.knobs[k - 1].values.size())
      point[--k] = 0;
    if (k == 0) return;
  }
}

std::optional<Point> Sampler::draw(Random& random, int tries) const {
  if (enumerated_) {
    if (points_.empty()) return std::nullopt;
    return points_[static_cast<std::size_t>(random.below(points_.size()))];
  }
  Point point(space_->knobs.size());
  for (int t = 0; t < tries; ++t) {
    for (std::size_t k = 0; k < point.size(); ++k) point[k] = random.below(space_->knobs[k].values.size());
    if (is_feasible(*space_, point)) return point;
  }
  return std::nullopt;
}

void Sampler::neighbours(const Point& point, std::vector<Point>& out) const {
  Point other = point;
  for (std::size_t k = 0; k < point.size(); ++k) {
    const int size = static_cast<int>(space_->knobs[k].values.size());
    for (int value = 0; value < size; ++value) {
      if (value == point[k]) continue;
      other[k] = value;
      if (is_feasible(*space_, other)) out.push_back(other);
    }
    other[k] = point[k];
  }
}

std::optional<Point> Sampler::mutate(const Point& point, int moves, Random& random, int tries) const {
  for (int t = 0; t < tries; ++t) {
    Point other = point;
    for (int m = 0; m < moves; ++m) {
      const auto k = static_cast<std::size_t>(random.below(point.size()));
      other[k] = random.below(space_->knobs[k].values.size());
    }
    if (other != point && is_feasible(*space_, other)) return other;
  }
  return std::nullopt;
}

std::optional<Point> Sampler::cross(const Point& a, const Point& b, Random& random, int tries) const {
  for (int t = 0; t < tries; ++t) {
    Point child = a;
    for (std::size_t k = 0; k < a.size(); ++k)
      if ((random.next() >> 63U) != 0) child[k] = b[k];
    if (child != a && child != b && is_feasible(*space_, child)) return child;
  }
  return std::nullopt;
}

}  // namespace cultivar
