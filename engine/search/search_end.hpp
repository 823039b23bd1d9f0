// SPDX-License-Identifier: Apache-2.0
// Whether a search goes on: its budgets of time, its turn among other searches, and why it ends.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "engine/breeding/breeding.hpp"
#include "engine/search/job.hpp"
#include "engine/search/recorder.hpp"
#include "engine/search/search.hpp"

namespace cultivar {

// Budgets of time that are used up, and what may follow then.
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

// Not thread-safe. All references outlive it.
class SearchEnd {
 public:
  // closing: a budget of time is used up, and started jobs may finish. leaving: the search was interrupted,
  // failed or exceeded its grace period, and the results of returning jobs are ignored.
  enum class Phase { running, closing, leaving };
  // Of searches that take turns (Runtime::turn_s, Runtime::turn_ends).
  struct Turn {
    double seconds = 0.0;
    const std::atomic<bool>* ends = nullptr;
  };
  // `changed` is called with each new phase and its reason.
  using Changed = std::function<void(Phase, Outcome::Stop)>;
  SearchEnd(const Budget&, Turn, Recorder&, const Breeding&, Changed changed);
  void begin();  // the session: reads what earlier ones used

  Phase phase() const { return phase_; }
  bool running() const { return phase_ == Phase::running && !outcome_; }
  const std::optional<Outcome>& outcome() const { return outcome_; }  // nullopt: nothing ends it
  bool turn_is_over() const;  // false once a budget has ended the search
  double grace_left() const;  // of a search that is closing: seconds, below 0 if it is over

  // Only the first reason counts; a later one does not replace it.
  void stop(Outcome::Stop, std::string reason);  // interrupted and failed searches leave
  void close(Outcome::Stop, std::string reason, double limit_s);
  void leave(Outcome::Stop, std::string reason);
  void leave_instead(Outcome::Stop, std::string reason);  // in place of an earlier reason
  void watch_budgets();
  // True if that takes back the end that a plateau brought.
  bool promoted(IndividualId);

  void count_device_time(const Job&);
  double device_s() const { return device_s_; }
  double take_unrecorded_device_s();  // what the record does not hold yet
  double promoted_s() const { return promoted_s_; }

 private:
  void enter(Phase, Outcome::Stop);
  std::string tried() const;  // what the supervisor has done since the last promotion

  const Budget& budget_;
  const Turn turn_;
  Recorder& recorder_;
  const Breeding& breeding_;
  const Changed changed_;

  Phase phase_ = Phase::running;
  std::optional<Outcome> outcome_;
  double closing_s_ = 0.0, closing_limit_s_ = 0.0;  // of the budget that ended the search: when, and its size
  double device_s_ = 0.0, unrecorded_device_s_ = 0.0;
  double promoted_s_ = 0.0;  // the time of the last promotion
};

}  // namespace cultivar
