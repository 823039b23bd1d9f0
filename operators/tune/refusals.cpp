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
  rows_.resize(values_ * values_);
}

void Refusals::add(std::span<const int> point, bool worked) {
  const auto count = [worked](Row& row) {
    ++row.seen;
    row.worked += worked ? 1 : 0;
  };
  count(all_);
  for (std::size_t a = 0; a < point.size(); ++a)
    for (std::size_t b = a; b < point.size(); ++b)
      count(rows_[place(a, point[a]) * values_ + place(b, point[b])]);
  const std::uint32_t failed = all_.seen - all_.worked;
  if (failed == 0) return;
  const double share = (failed + 1.0) / (all_.seen + 2.0);
  enough_ = static_cast<std::uint32_t>(std::max(2.0, std::ceil(std::log(kChance) / std::log(share))));
}

bool Refusals::expects(std::span<const int> point) const {
  if (enough_ == 0) return false;
  for (std::size_t a = 0; a < point.size(); ++a)
    for (std::size_t b = a; b < point.size(); ++b) {
      const Row& row = rows_[place(a, point[a]) * values_ + place(b, point[b])];
      if (row.worked == 0 && row.seen >= enough_) return true;
    }
  return false;
}

}  // namespace cultivar
