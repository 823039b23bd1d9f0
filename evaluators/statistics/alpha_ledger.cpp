// SPDX-License-Identifier: Apache-2.0
#include "evaluators/statistics/alpha_ledger.hpp"

#include <cmath>
#include <stdexcept>

namespace cultivar {

AlphaLedger::AlphaLedger(double alpha, std::uint64_t comparisons) : alpha_(alpha) {
  if (!(alpha > 0.0 && alpha < 1.0))
    throw std::invalid_argument("the alpha of a run must be between 0 and 1");
  while (comparisons_ < comparisons) next();
}

double AlphaLedger::share(std::uint64_t comparison) const {
  if (comparison < 1) throw std::invalid_argument("comparison numbers start at 1");
  // The sum over n >= 2 of 1 / (n ln^2 n) is 2.10974...; rounded up, so that the sum of all shares stays
  // below alpha.
  constexpr double total = 2.1098;
  const double n = static_cast<double>(comparison) + 1.0;
  return alpha_ / (total * n * std::log(n) * std::log(n));
}

double AlphaLedger::next() {
  const double alpha = share(++comparisons_);
  spent_ += alpha;
  return alpha;
}

}  // namespace cultivar
