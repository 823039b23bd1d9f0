// SPDX-License-Identifier: Apache-2.0
#include "operators/tune/sampler.hpp"

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

double Random::uniform() {
  return static_cast<double>(next() >> 11U) * 0x1.0p-53;
}

namespace {

// Advances to the next point in grid order; false after the last one.
bool advance(const Space& space, Point& point) {
  for (std::size_t k = point.size(); k-- > 0;) {
    if (static_cast<std::size_t>(++point[k]) < space.knobs[k].values.size()) return true;
    point[k] = 0;
  }
  return false;
}

}  // namespace

Sampler::Sampler(const Space& space) : space_(&space), grid_(grid_size(space, kScanned + 1)) {
  if (grid_ > kEnumerated) return;
  enumerated_ = true;
  if (grid_ == 0) return;
  Point point(space.knobs.size(), 0);
  do {
    if (is_feasible(space, point)) points_.push_back(point);
  } while (advance(space, point));
}

std::optional<Point> Sampler::draw(Random& random, int& tries) const {
  if (enumerated_) {
    if (points_.empty() || tries-- <= 0) return std::nullopt;
    return points_[static_cast<std::size_t>(random.below(points_.size()))];
  }
  Point point(space_->knobs.size());
  while (tries-- > 0) {
    for (std::size_t k = 0; k < point.size(); ++k) point[k] = random.below(space_->knobs[k].values.size());
    if (is_feasible(*space_, point)) return point;
  }
  return std::nullopt;
}

std::optional<Point> Sampler::scan(const std::function<bool(const Point&)>& accept) const {
  if (grid_ == 0 || grid_ > kScanned) return std::nullopt;
  Point point(space_->knobs.size(), 0);
  do {
    if (accept(point) && is_feasible(*space_, point)) return point;
  } while (advance(*space_, point));
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

std::optional<Point> Sampler::mutate(const Point& point, int moves, Random& random) const {
  Point other = point;
  for (int m = 0; m < moves; ++m) {
    const auto k = static_cast<std::size_t>(random.below(point.size()));
    other[k] = random.below(space_->knobs[k].values.size());
  }
  if (other == point || !is_feasible(*space_, other)) return std::nullopt;
  return other;
}

std::optional<Point> Sampler::cross(const Point& a, const Point& b, Random& random) const {
  Point child = a;
  for (std::size_t k = 0; k < a.size(); ++k)
    if ((random.next() >> 63U) != 0) child[k] = b[k];
  if (child == a || child == b || !is_feasible(*space_, child)) return std::nullopt;
  return child;
}

}  // namespace cultivar
