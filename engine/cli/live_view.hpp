// SPDX-License-Identifier: Apache-2.0
// The few lines that a terminal shows of a search while it goes on: the best with how it grew, what is in
// flight, devices, budgets.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "engine/search/search_callbacks.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

using BestsSoFar = std::vector<std::pair<double, double>>;  // search time in seconds, fitness; in order

struct LiveView {
  struct Share {  // of a budget
    std::string name, words;
    double used = 0.0;  // 0 to 1
  };
  std::string head;                                        // may be empty
  std::vector<std::pair<std::string, std::string>> lines;  // key and words; the first one is the best
  std::vector<Share> budgets;
  BestsSoFar bests;
  double elapsed_s = 0.0;
};
LiveView live_view_of(const Progress&, const BestsSoFar&);
LiveView live_view_of(const Summary&, const BestsSoFar&);

// Lines of at most `width` characters, cut between words. Without `utf8` only ASCII.
std::vector<std::string> drawn(const LiveView&, std::size_t width, bool utf8);

// The best so far over search time, in `columns` characters from the lowest to the highest; empty if there is
// none.
std::string sparkline(const BestsSoFar&, double elapsed_s, std::size_t columns, bool utf8);

// Whether this terminal's characters are UTF-8, by the usual variables of the environment.
bool speaks_utf8();

}  // namespace cultivar
