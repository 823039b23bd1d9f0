// SPDX-License-Identifier: Apache-2.0
// How a session ends when several searches take turns (Runtime::turn_s).
#include <fmt/format.h>

#include "engine/config/duration.hpp"
#include "engine/search/search_loop.hpp"

namespace cultivar {
namespace {

constexpr double kAnswersAreRead = 4.0;  // seconds until those are that lie in a mailbox already

}  // namespace

// After watch_budgets(): a budget that is used up ends the search for good. The comparison in flight is not
// cut off, because the next turn would only begin it anew; but that of a seed is, if answers may make it
// needless.
void SearchLoop::watch_turn() {
  constexpr const char* kAwaited = "only answers in mailboxes are awaited";
  if (phase_ == Phase::running && turn_is_over()) {
    if (!comparisons_.in_flight())
      return close(Outcome::Stop::turn,
                   parts_.turn_ends && *parts_.turn_ends
                       ? "another search goes on"
                       : fmt::format("its turn of {} is over", duration(parts_.turn_s)),
                   parts_.turn_s);
    if (breeding_.incumbent() == 0 && questions_.letters_out() > 0) {
      // What waits for the device is done in a later turn.
      bool of_seeds = true, busy = false;
      for (const auto& entry : pipeline_.board().entries()) {
        of_seeds = of_seeds && breeding_.archive().of_a_seed(entry.id);
        busy = busy || entry.doing == InFlight::Doing::compiling ||
               entry.doing == InFlight::Doing::evaluating ||
               (entry.doing == InFlight::Doing::confirmation && !breeding_.archive().of_a_seed(entry.id));
      }
      if (!busy)
        return leave(of_seeds ? Outcome::Stop::letters : Outcome::Stop::turn,
                     "answers in mailboxes are awaited, and may make the confirmation of a seed needless");
    }
  }
  const int letters = questions_.letters_out();
  if (phase_ == Phase::leaving || letters == 0 || pipeline_.in_flight() != letters)
    return only_letters_since_.reset();
  const bool nothing_else = exhausted() && !evaluations_.has_pending() && !comparisons_.due(ending()) &&
                            !profiles_.first_due() && !faults_.holds_some() && !faults_.resting();
  if (phase_ == Phase::closing) {  // not for a budget: its grace period ends by itself
    if (turn_is_over() && nothing_else) outcome_.reset();
    if (turn_is_over()) leave(outcome_ ? Outcome::Stop::turn : Outcome::Stop::letters, kAwaited);
    return;
  }
  if (!nothing_else) return only_letters_since_.reset();
  if (!only_letters_since_) only_letters_since_ = Clock::now();
  if (seconds_since(*only_letters_since_) >= kAnswersAreRead) leave(Outcome::Stop::letters, kAwaited);
}

}  // namespace cultivar
