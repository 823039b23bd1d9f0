// SPDX-License-Identifier: Apache-2.0
#include "operators/tune/observations.hpp"

#include <algorithm>
#include <cmath>

namespace cultivar {

using Eigen::Index;

std::optional<std::uint32_t> Observations::number_of(const Point& wanted) const {
  return index_.find(PointHash{}(wanted), [&](std::uint32_t at) {
    return std::equal(wanted.begin(), wanted.end(),
                      values_.begin() + static_cast<std::ptrdiff_t>(at * knobs_));
  });
}

bool Observations::cheaper(std::size_t a, std::size_t b) const {
  return log_cost_[a] != log_cost_[b] ? log_cost_[a] < log_cost_[b] : a < b;
}

void Observations::order() {
  const auto before = [this](std::size_t a, std::size_t b) { return cheaper(a, b); };
  std::ranges::sort(unordered_, before);
  const auto middle = static_cast<std::ptrdiff_t>(order_.size());
  order_.insert(order_.end(), unordered_.begin(), unordered_.end());
  std::inplace_merge(order_.begin(), order_.begin() + middle, order_.end(), before);
  unordered_.clear();
}

bool Observations::add(const Point& observed, std::optional<double> cost) {
  const std::optional<std::uint32_t> known = number_of(observed);
  const std::uint32_t at = known.value_or(static_cast<std::uint32_t>(size()));
  if (!known) {
    for (const int value : observed) values_.push_back(static_cast<std::uint16_t>(value));
    log_cost_.push_back(kFailed);
    index_.add(at, [this](std::uint32_t other) { return PointHash{}(point(other)); });
  } else if (!failed(at)) {
    std::erase(order_, at);
    std::erase(unordered_, at);
  }
  const double value = cost.value_or(-1);
  log_cost_[at] = std::isfinite(value) && value > 0 ? std::log(value) : kFailed;
  if (!failed(at)) unordered_.push_back(at);
  if (!failed(at) && value < best_) {
    best_ = value;
    best_since_ = size();
  }
  return !known;
}

bool Observations::contains(const Point& point, std::size_t first) const {
  const std::optional<std::uint32_t> known = number_of(point);
  return known && *known < first;
}

std::vector<std::uint32_t> Observations::ordered(std::size_t first) {
  order();
  if (first >= size()) return order_;
  std::vector<std::uint32_t> oldest;
  std::ranges::copy_if(order_, std::back_inserter(oldest), [&](std::size_t at) { return at < first; });
  return oldest;
}

Training Observations::costs(std::size_t cap, std::size_t first) {
  std::vector<std::uint32_t> chosen = ordered(first);
  if (chosen.size() > cap) {
    const std::size_t keep = cap * 2 / 3, rest = cap - keep, left = chosen.size() - keep;
    for (std::size_t i = 0; i < rest; ++i) chosen[keep + i] = chosen[keep + i * left / rest];
    chosen.resize(cap);
  }
  Training set;
  set.y.resize(static_cast<Index>(chosen.size()));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    set.points.push_back(point(chosen[i]));
    set.y[static_cast<Index>(i)] = log_cost_[chosen[i]];
  }
  const double mean = set.y.mean();
  const double sd = std::sqrt((set.y.array() - mean).square().mean());
  set.y = (set.y.array() - mean) / (sd > 1e-9 ? sd : 1.0);
  return set;
}

Training Observations::outcomes(std::size_t cap, std::size_t first) const {
  const std::size_t end = std::min(first, size()), count = std::min(cap, end);
  Training set;
  set.y.resize(static_cast<Index>(count));
  for (std::size_t i = 0; i < count; ++i) {
    set.points.push_back(point(end - 1 - i));
    set.y[static_cast<Index>(i)] = failed(end - 1 - i) ? 0.0 : 1.0;
  }
  return set;
}

}  // namespace cultivar
