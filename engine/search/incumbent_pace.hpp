// SPDX-License-Identifier: Apache-2.0
// Measures the current pace. The device's speed changes with its temperature, between days and between cards,
// so the incumbent is measured again when a search is resumed and periodically afterward; fitness is then
// scaled by the measured pace. A host's speed changes within seconds: there the incumbent is timed beside
// each individual, which then has a pace of its own.
#pragma once

#include <optional>

#include "engine/search/evaluations.hpp"

namespace cultivar {

// Not thread-safe. All references outlive it.
class IncumbentPace {
 public:
  IncumbentPace(const Config&, Recorder&, Breeding&, ParsedSources&, Pipeline&);

  void start_if_due();
  // The session's first pace measurement is in flight: other measurements must wait, as their pace is
  // unknown.
  bool awaited() const { return in_flight_ && unknown_; }
  // Takes a returned job: sends a compiled one to the device, records the pace of a measured one.
  void returned(const JobPtr&, Pace&);
  // Takes what the incumbent reached beside an individual that is about to be judged.
  void beside(const Evaluate&);
  void lost() { in_flight_ = false; }  // the job returned without a result
  // No worker was available: the search continues with the pace that it has.
  void give_up();

  const Medians& medians_us() const { return medians_us_; }
  void set_medians(const Evaluation&);  // of the incumbent

 private:
  struct Reading {
    IndividualId id = 0;
    Evaluation evaluation;
  };
  double pace_of(const Reading&) const;
  double jump_of(const Reading&) const;  // absolute log ratio to the current pace
  void measured(Reading);

  const Config& config_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;

  Medians medians_us_;
  bool in_flight_ = false;              // a job is in the pipeline
  bool unknown_;                        // true from a resume until the first measurement or give_up()
  double gap_s_, due_;                  // interval in seconds; next time in Recorder::elapsed()
  std::optional<Reading> unconfirmed_;  // a large change that a second measurement must confirm
};

}  // namespace cultivar
