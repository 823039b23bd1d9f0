// SPDX-License-Identifier: Apache-2.0
// Budgets of time that are used up, and what may follow then.
#pragma once

#include <optional>
#include <string>

#include "engine/search/search.hpp"

namespace cultivar {

struct SpentBudget {
  Outcome::Stop stop;
  std::string reason;
  double limit_s;
};

// Of the wall clock or of device hours; in seconds. Empty: neither is used up.
std::optional<SpentBudget> spent_budget(const Budget&, double elapsed_s, double device_s);

// How long comparisons may go on after such a budget. A measured kernel that is not compared is wasted work.
// It is longer during the first confirmation, without which the whole search has no result.
double grace_after(double limit_s, bool first_confirmation);

}  // namespace cultivar
