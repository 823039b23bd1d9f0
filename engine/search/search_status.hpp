// SPDX-License-Identifier: Apache-2.0
// What a search shows of itself while it runs: its progress to callbacks, and what its heartbeats record.
#pragma once

#include <string>

#include "engine/search/comparisons.hpp"
#include "engine/search/evaluations.hpp"
#include "engine/search/questions.hpp"
#include "engine/search/search_end.hpp"
#include "evaluators/system/clock.hpp"

namespace cultivar {

// Not thread-safe. All references outlive it.
class SearchStatus {
 public:
  struct Parts {
    const Config& config;
    Evaluator& evaluator;
    const SearchCallbacks& callbacks;
    Recorder& recorder;
    Breeding& breeding;
    Pipeline& pipeline;
    const HostFaults& faults;
    Evaluations& evaluations;
    const Comparisons& comparisons;
    const Questions& questions;
    SearchEnd& end;
  };
  explicit SearchStatus(Parts parts) : parts_(parts) {}

  // `ending`: no budget permits a further evaluation.
  void show(bool ending);
  void write(Step&) const;  // what `status` shows besides the record
  void tell_of_stops();     // of the process, or of its machine

 private:
  void heartbeat();
  std::string momentary() const;
  std::string starting_words(int starting) const;
  std::string step() const;  // see WorkInProgress; only long ones once a kernel was measured

  const Parts parts_;
  double last_heartbeat_ = 0.0;
  bool paused_ = false;                                       // at the last heartbeat
  SearchEnd::Phase shown_phase_ = SearchEnd::Phase::running;  // the same
  double stopped_s_ = stopped_s();                            // at the last call
};

}  // namespace cultivar
