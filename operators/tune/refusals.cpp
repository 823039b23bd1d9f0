// SPDX-License-Identifier: Apache-2.0
#include "operators/tune/refusals.hpp"

#include <algorithm>
#include <cmath>

namespace cultivar {

Refusals::Refusals(const Space& space) {
  for (const Knob& knob : space.knobs) {
    first_.push_back(values_);
    values_ += knob.values.size();
  }
  worked_.resize(values_ * values_);
}

bool Refusals::matches(const Rule& rule, std::span<const int> point) const {
  const auto has = [&](std::size_t value) {
    for (std::size_t k = 0; k < point.size(); ++k)
      if (place(k, point[k]) == value) return true;
    return false;
  };
  return has(rule.one) && has(rule.other);
}

bool Refusals::expects(std::span<const int> point) const {
  return std::ranges::any_of(rules_, [&](const Rule& rule) { return matches(rule, point); });
}

void Refusals::add(std::span<const int> point, bool worked) {
  const bool expected = expects(point);
  ++points_;
  if (worked) {
    for (std::size_t a = 0; a < point.size(); ++a)
      for (std::size_t b = a; b < point.size(); ++b)
        worked_[place(a, point[a]) * values_ + place(b, point[b])] = 1;
  } else {
    ++failed_;
    if (failures_.size() < kMost) failures_.emplace_back(point.begin(), point.end());
  }
  if (worked == expected) learn();
}

void Refusals::learn() {
  rules_.clear();
  const double share = (static_cast<double>(failed_) + 1.0) / (static_cast<double>(points_) + 2.0);
  const auto enough =
      static_cast<std::uint32_t>(std::max(2.0, std::ceil(std::log(kChance) / std::log(share))));
  std::vector<const std::vector<int>*> unexplained;
  for (const std::vector<int>& failure : failures_) unexplained.push_back(&failure);
  std::vector<std::uint32_t> counts(worked_.size());
  while (unexplained.size() >= enough) {
    std::ranges::fill(counts, 0U);
    for (const std::vector<int>* point : unexplained)
      for (std::size_t a = 0; a < point->size(); ++a)
        for (std::size_t b = a; b < point->size(); ++b) {
          const std::size_t row = place(a, (*point)[a]) * values_ + place(b, (*point)[b]);
          if (worked_[row] == 0) ++counts[row];
        }
    const auto most = std::ranges::max_element(counts);
    if (*most < enough) return;
    const auto row = static_cast<std::size_t>(most - counts.begin());
    rules_.push_back({row / values_, row % values_});
    std::erase_if(unexplained, [&](const std::vector<int>* point) { return matches(rules_.back(), *point); });
  }
}

}  // namespace cultivar
