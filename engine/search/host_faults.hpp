// SPDX-License-Identifier: Apache-2.0
// Faults of the machine during a search: what met one is done again, and a search without a usable worker
// waits, longer each time, until evaluation.patience is over.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/search/recorder.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

// Not thread-safe. The recorder outlives it. Nothing here is part of a replay: a repeated evaluation decides
// nothing until it has a result, and the times of waiting are not decisions.
class HostFaults {
 public:
  HostFaults(Recorder&, double patience_s);

  enum class Ruling {
    again,    // evaluate it again, once released() returns it
    put_off,  // this often that it waits until the search is resumed
    variants  // kernels that are known to work had no such fault in between: the variant is the cause
  };
  // An evaluation or confirmation of this individual ended with a fault of the host, which is recorded.
  Ruling met(IndividualId, Examination, const Evaluation&);
  // The same for a duel. Never put_off.
  Ruling met_in_duel(IndividualId challenger, HostFault, const std::string& what);
  // The same for the compilation of a contender, the number-th of this confirmation, which is to be repeated,
  // or goes on without it unless `again`.
  Ruling met_by_contender(IndividualId confirmed, int number, const std::string& name, const Evaluation&);
  // No worker was available. What was to be done is still to be done.
  void no_worker(IndividualId, const Error&);
  void succeeded();  // a worker gave a result

  // Individuals whose evaluation may be repeated now.
  std::vector<IndividualId> released();
  bool holds_some() const { return !held_.empty(); }
  bool has_put_off() const { return !put_off_.empty(); }
  // A kernel that is known to work is to be measured now, so that it shows whose fault the last one was.
  bool canary_due() const { return canary_ == Canary::due; }
  void canary_sent() { canary_ = Canary::in_flight; }
  // nullopt: there is no such kernel, or its measurement gave nothing.
  void canary_returned(std::optional<bool> well);
  bool suspects(IndividualId id) const { return met_.contains(id) && met_.at(id).suspect; }
  bool canary_in_flight() const { return canary_ == Canary::in_flight; }

  bool resting() const { return recorder_.elapsed() < rest_until_; }  // nothing is to be started now
  int in_a_row() const { return in_a_row_; }
  // Why the search ends: no result for longer than the patience.
  std::optional<std::string> out_of_patience() const;
  std::string why_put_off() const;     // why the search ends without them
  std::string waiting_words() const;   // for the progress line; empty if the search does not wait
  std::optional<Pause> pause() const;  // the same for the record

 private:
  struct Met {
    int faults = 0;
    int cleared = 0;  // times that a known kernel had no fault after this one had
    bool suspect = false;
  };
  Ruling rule(IndividualId, HostFault);
  void rest(const std::string& why);

  Recorder& recorder_;
  const double patience_s_;
  std::mt19937 jitter_{std::random_device{}()};
  std::map<IndividualId, Met> met_;
  std::set<IndividualId> held_, put_off_;
  enum class Canary { none, due, in_flight } canary_ = Canary::none;
  int in_a_row_ = 0;       // faults since the last result
  double first_at_ = 0.0;  // of these, in Recorder::elapsed()
  double rest_until_ = 0.0;
  std::string last_words_;
};

}  // namespace cultivar
