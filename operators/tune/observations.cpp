#include "operators/tune/observations.hpp"

#include <algorithm>
#include <cmath>

namespace cultivar {

using Eigen::Index;

bool Observations::EqualAt::operator()(std::span<const int> a, std::size_t b) const {
  return std::ranges::equal(a, all->at(b));
}

bool Observations::cheaper(std::size_t a, std::size_t b) const {
  return *log_cost_[a] != *log_cost_[b] ? *log_cost_[a] < *log_cost_[b] : a < b;
}

void Observations::order() {
  const auto before = [this](std::size_t a, std::size_t b) { return cheaper(a, b); };
  std::ranges::sort(unordered_, before);
  const auto middle = static_cast<std::ptrdiff_t>(order_.size());
  order_.insert(order_.end(), unordered_.begin(), unordered_.end());
  std::inplace_merge(order_.begin(), order_.begin() + middle, order_.end(), before);
  unordered_.clear();
}

bool Observations::add(const Point& point, std::optional<double> cost) {
  const auto place = index_.find(std::span<const int>(point));
  const bool added = place == index_.end();
  const std::size_t at = added ? size() : *place;
  if (added) {
    values_.insert(values_.end(), point.begin(), point.end());
    log_cost_.push_back({});
    index_.insert(at);
  } else if (log_cost_[at]) {
    std::erase(order_, at);
    std::erase(unordered_, at);
  }
  const double value = cost.value_or(-1);
  log_cost_[at] = std::isfinite(value) && value > 0 ? std::optional(std::log(value)) : std::nullopt;
  if (log_cost_[at]) unordered_.push_back(at);
  if (log_cost_[at] && value < best_) {
    best_ = value;
    best_since_ = size();
  }
  return added;
}

bool Observations::contains(const Point& point, std::size_t first) const {
  const auto place = index_.find(std::span<const int>(point));
  return place != index_.end() && *place < first;
}

std::vector<std::size_t> Observations::ordered(std::size_t first) {
  order();
  if (first >= size()) return order_;
  std::vector<std::size_t> oldest;
  std::ranges::copy_if(order_, std::back_inserter(oldest), [&](std::size_t at) { return at < first; });
  return oldest;
}

Training Observations::costs(std::size_t cap, std::size_t first) {
  std::vector<std::size_t> chosen = ordered(first);
  if (chosen.size() > cap) {
    const std::size_t keep = cap * 2 / 3, rest = cap - keep, left = chosen.size() - keep;
    for (std::size_t i = 0; i < rest; ++i) chosen[keep + i] = chosen[keep + i * left / rest];
    chosen.resize(cap);
  }
  Training set;
  set.y.resize(static_cast<Index>(chosen.size()));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    set.points.push_back(point(chosen[i]));
    set.y[static_cast<Index>(i)] = *log_cost_[chosen[i]];
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
    set.y[static_cast<Index>(i)] = log_cost_[end - 1 - i] ? 1.0 : 0.0;
  }
  return set;
}

}  // namespace cultivar
