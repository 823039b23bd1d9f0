// SPDX-License-Identifier: Apache-2.0
#include "operators/tune/lessons.hpp"

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

namespace {

std::size_t index(int value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

KnownKernels::KnownKernels(const Space& space) : dependent_(space.knobs.size()) {
  for (const Knob& knob : space.knobs) group_.emplace_back(knob.values.size());
  learn();
}

void KnownKernels::add(const Point& point, bool worked, const std::optional<Point>& twin) {
  if (history_.size() == kMost) return;
  const bool duplicate = twin && *twin != point;
  history_.push_back({point, worked && !duplicate, duplicate ? twin : std::nullopt});
  const bool news = duplicate && canonical(point) != canonical(*twin) && !differ_in_dependent(point, *twin);
  if (news || note(history_.back())) learn();
}

Point KnownKernels::canonical(std::span<const int> point) const {
  Point least(point.begin(), point.end());
  if (any_)
    for (std::size_t k = 0; k < least.size(); ++k) least[k] = group_[k][index(least[k])];
  return least;
}

bool KnownKernels::differ_in_dependent(const Point& a, const Point& b) const {
  for (std::size_t k = 0; k < a.size(); ++k)
    if (a[k] != b[k] && dependent_[k]) return true;
  return false;
}

bool KnownKernels::note(const Seen& now) {
  Point& own = seen_[canonical(now.point)];
  if (!now.distinct || own == now.point) return false;
  if (own.empty()) {
    own = now.point;
    return false;
  }
  for (std::size_t k = 0; k < own.size(); ++k)
    if (own[k] != now.point[k]) dependent_[k] = true;
  return true;
}

void KnownKernels::join(const Point& point, const Point& twin) {
  if (differ_in_dependent(point, twin)) return;
  for (std::size_t k = 0; k < point.size(); ++k) {
    std::vector<int>& group = group_[k];
    const int a = group[index(point[k])], b = group[index(twin[k])];
    if (a == b) continue;
    any_ = true;
    std::ranges::replace(group, std::max(a, b), std::min(a, b));
    // The first, the last and one between them are enough to say it of all.
    if (group.back() == 0 && std::ranges::count(group, 0) >= 3) std::ranges::fill(group, 0);
  }
}

void KnownKernels::learn() {
  for (bool settled = false; !settled;) {
    any_ = false;
    for (std::vector<int>& group : group_)
      for (std::size_t value = 0; value < group.size(); ++value) group[value] = static_cast<int>(value);
    for (const Seen& seen : history_)
      if (seen.twin) join(seen.point, *seen.twin);
    seen_.clear();
    settled = std::ranges::none_of(history_, [this](const Seen& seen) { return note(seen); });
  }
}

}  // namespace cultivar
