// SPDX-License-Identifier: Apache-2.0
#include "operators/tune/space.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace cultivar {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

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

namespace {

VectorXd scaled(VectorXd values) {
  const double low = values.minCoeff(), high = values.maxCoeff();
  if (high > low) return (values.array() - low) / (high - low);
  return VectorXd::Zero(values.size());
}

VectorXd ranks(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  VectorXd rank(static_cast<Index>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    rank[static_cast<Index>(i)] =
        static_cast<double>(std::lower_bound(sorted.begin(), sorted.end(), values[i]) - sorted.begin());
  return rank;
}

// How often 2 divides each value; empty unless all are positive integers and some are not powers of two.
VectorXd twos(const std::vector<double>& values) {
  VectorXd count(static_cast<Index>(values.size()));
  bool other = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    if (value < 1 || value > 1e15 || value != std::floor(value)) return {};
    const auto integer = static_cast<std::uint64_t>(value);
    const int zeros = __builtin_ctzll(integer);
    other = other || (integer >> static_cast<unsigned>(zeros)) != 1;
    count[static_cast<Index>(i)] = zeros;
  }
  if (!other || count.minCoeff() == count.maxCoeff()) return {};
  return count;
}

}  // namespace

Encoding::Encoding(const std::vector<Knob>& knobs) {
  for (std::size_t k = 0; k < knobs.size(); ++k) {
    const Knob& knob = knobs[k];
    const auto size = static_cast<Index>(knob.values.size());
    rank_scale_.push_back(!knob.ordinal || size < 2 ? 0.0 : 1.0 / static_cast<double>(size - 1));
    if (size < 2) continue;
    Block block{k, MatrixXd()};
    if (!knob.ordinal && size > 2) {
      block.table = MatrixXd::Identity(size, size);
    } else {
      const VectorXd values = Eigen::Map<const VectorXd>(knob.values.data(), size);
      const VectorXd scale = values.minCoeff() > 0 ? VectorXd(values.array().log()) : values;
      const VectorXd main = 0.5 * scaled(ranks(knob.values)) + 0.5 * scaled(scale);
      const VectorXd divisible = twos(knob.values);
      block.table.resize(size, divisible.size() > 0 && size > 2 ? 2 : 1);
      block.table.col(0) = main;
      if (block.table.cols() > 1) block.table.col(1) = scaled(divisible);
    }
    features_ += block.table.cols();
    blocks_.push_back(std::move(block));
  }
  if (features_ == 0) features_ = 1;  // a space with a single point still needs a row
}

void Encoding::encode(std::span<const int> point, double* row, Index stride) const {
  for (const Block& block : blocks_)
    for (Index f = 0; f < block.table.cols(); ++f, row += stride) *row = block.table(point[block.knob], f);
}

MatrixXd Encoding::rows(std::span<const Point> points) const {
  MatrixXd x = MatrixXd::Zero(static_cast<Index>(points.size()), features_);
  for (Index i = 0; i < x.rows(); ++i) encode(points[static_cast<std::size_t>(i)], &x(i, 0), x.rows());
  return x;
}

double Encoding::distance(std::span<const int> a, std::span<const int> b) const {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k)
    if (a[k] != b[k]) sum += rank_scale_[k] == 0 ? 1.0 : rank_scale_[k] * std::abs(a[k] - b[k]);
  return sum;
}

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
