// SPDX-License-Identifier: Apache-2.0
// Budgets of time that are used up, and what may follow then.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/breeding/breeding.hpp"
#include "engine/search/search.hpp"

namespace cultivar {

struct SpentBudget {
  Outcome::Stop stop;
  std::string reason;
  double limit_s;
};

// Of the wall clock or of device hours; in seconds. Empty: neither is used up.
std::optional<SpentBudget> spent_budget(const Budget&, double elapsed_s, double device_s);

// The kernel that the next comparison is about, if there is no best or it was measured to be clearly faster
// than that; 0: none.
IndividualId far_ahead(const Breeding&);

// How long comparisons may go on after such a budget. A measured kernel that is not compared is wasted work.
// `longer`: a kernel is far ahead, or the whole search has no result.
double grace_after(double limit_s, bool longer);

// To be added to the reason for which a search ended: of a kernel that is far ahead of the best. Empty: none
// is.
std::string words_of_far_ahead(const Breeding&, const std::filesystem::path& run_folder);

}  // namespace cultivar
