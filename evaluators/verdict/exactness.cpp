// SPDX-License-Identifier: Apache-2.0
#include "evaluators/verdict/exactness.hpp"

#include <algorithm>

#include "evaluators/system/json_fields.hpp"

namespace cultivar {
namespace {

const Exactness* find(const std::vector<Exactness>& all, const std::string& distribution) {
  const auto found = std::ranges::find(all, distribution, &Exactness::distribution);
  return found == all.end() ? nullptr : &*found;
}

double bar_of(const Exactness& e) {
  return std::max(1.0, e.bar > 0.0 ? std::min(e.bar, e.of_allowed) : e.of_allowed);
}

}  // namespace

CULTIVAR_JSON_PART(RelativeError, rms, max)

void to_json(nlohmann::json& j, const RelativeError& e) {
  write_fields(j, e);
  if (e.integers > 0) j["wrong"] = e.wrong, j["integers"] = e.integers;
}

void from_json(const nlohmann::json& j, RelativeError& e) {
  read_fields(j, e);
  e.wrong = j.value("wrong", std::int64_t{0});  // older records lack both
  e.integers = j.value("integers", std::int64_t{0});
}

CULTIVAR_JSON(Exactness, distribution, error, of_allowed, contenders, bar)

void set_bars(std::vector<Exactness>& next, const std::vector<Exactness>& before) {
  for (Exactness& e : next) {
    const Exactness* const earlier = find(before, e.distribution);
    e.bar = earlier == nullptr ? std::max(1.0, e.of_allowed)
                               : std::min(bar_of(*earlier), std::max(1.0, e.of_allowed));
  }
}

std::optional<ErrorGrowth> error_growth(const std::vector<Exactness>& next,
                                        const std::vector<Exactness>& before, double most) {
  std::optional<ErrorGrowth> worst;
  for (const Exactness& e : next) {
    const Exactness* const earlier = find(before, e.distribution);
    if (earlier == nullptr) continue;
    const double limit = most * bar_of(*earlier);
    if (e.of_allowed > limit && (!worst || e.of_allowed / limit > worst->of_allowed / worst->limit))
      worst = ErrorGrowth{e.distribution, e.of_allowed, limit};
  }
  return worst;
}

}  // namespace cultivar
