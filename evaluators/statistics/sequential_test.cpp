#include "evaluators/statistics/sequential_test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "evaluators/statistics/location.hpp"

namespace cultivar {
namespace {

// No bet risks more than this share of the wealth: a wild value on the wrong side costs a factor of four, one
// on the right side gains 1.75.
constexpr double largest_stake = 0.75;
constexpr double plenty = 1e200;           // keeps a product of factors finite
constexpr double finest_deviation = 1e-6;  // a log ratio below one in a million is not timing

}  // namespace

SequentialTest::SequentialTest(Claim claim, double bound, double alpha)
    : sign_(claim == Claim::above ? 1.0 : -1.0), bound_(bound), threshold_(1.0 / alpha) {
  if (!(alpha > 0.0 && alpha < 1.0)) throw std::invalid_argument("a test's alpha lies between 0 and 1");
  if (!std::isfinite(bound)) throw std::invalid_argument("a test's bound is finite");
  wealth_.fill(1.0);
}

void SequentialTest::add(double value, double deviation) {
  if (!(deviation > 0.0)) return;
  const double z = sign_ * (value - bound_) / deviation;
  double sum = 0.0;
  for (std::size_t i = 0; i < boldness.size(); ++i) {
    const double stake = std::clamp(boldness[i] * z, -largest_stake, largest_stake);
    wealth_[i] = std::min(wealth_[i] * (1.0 + stake), plenty);
    sum += wealth_[i];
  }
  evidence_ = std::max(evidence_, sum / static_cast<double>(boldness.size()));
}

void SymmetricSeries::add(double value) {
  values_.push_back(value);
  deviations_.push_back(deviation_);
  if (values_.size() < refresh_at_) return;
  // The deviation of few values is uncertain, and a bet sized by one that is too small loses most: lean to
  // large.
  const double n = static_cast<double>(values_.size());
  deviation_ = std::max(robust_deviation(values_) * (1.0 + 2.0 / n), finest_deviation);
  refresh_at_ = values_.size() + 1 + values_.size() / 8;
}

double SymmetricSeries::lower_bound(double alpha) const {
  return bound(Claim::above, alpha);
}
double SymmetricSeries::upper_bound(double alpha) const {
  return bound(Claim::below, alpha);
}

double SymmetricSeries::bound(Claim claim, double alpha) const {
  const double infinity = std::numeric_limits<double>::infinity();
  const double sign = claim == Claim::above ? 1.0 : -1.0;
  const auto shown = [&](double centre) {
    SequentialTest test(claim, centre, alpha);
    for (std::size_t i = 0; i < values_.size(); ++i) test.add(values_[i], deviations_[i]);
    return test.shown();
  };
  if (values_.empty()) return -sign * infinity;
  // The wealth of every game falls as the centre that it refutes moves towards the claim, so the refuted
  // centres are a half-line and its end is found by bisection. Beyond `easy` every bet is already at its
  // largest.
  const auto [least, greatest] = std::minmax_element(values_.begin(), values_.end());
  const double reach = 100.0 * (*std::max_element(deviations_.begin(), deviations_.end()) + finest_deviation);
  double easy = claim == Claim::above ? *least - reach : *greatest + reach;
  double hard = claim == Claim::above ? *greatest : *least;
  if (!shown(easy)) return -sign * infinity;
  for (int i = 0; i < 60 && easy != hard; ++i) {
    const double middle = 0.5 * (easy + hard);
    (shown(middle) ? easy : hard) = middle;
  }
  return easy;
}

}  // namespace cultivar
