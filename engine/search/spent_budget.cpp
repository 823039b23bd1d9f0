// SPDX-License-Identifier: Apache-2.0
#include "engine/search/spent_budget.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/duration.hpp"

namespace cultivar {

std::optional<SpentBudget> spent_budget(const Budget& budget, double elapsed_s, double device_s) {
  if (budget.wall_s > 0 && elapsed_s >= budget.wall_s)
    return SpentBudget{Outcome::Stop::wall,
                       fmt::format("the wall-clock budget of {} is exhausted", duration(budget.wall_s)),
                       budget.wall_s};
  if (budget.device_s > 0 && device_s >= budget.device_s)
    return SpentBudget{
        Outcome::Stop::device,
        fmt::format("the budget of {:.6g} device hours is exhausted", budget.device_s / 3600.0),
        budget.device_s};
  return std::nullopt;
}

double grace_after(double limit_s, bool first_confirmation) {
  return std::max(std::clamp(0.1 * limit_s, 5.0, 60.0), first_confirmation ? 120.0 : 0.0);
}

}  // namespace cultivar
