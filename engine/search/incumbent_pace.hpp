// The current speed of the incumbent. It changes with the card and its temperature, so the incumbent is
// measured again when a search is resumed and from time to time; new measurements are compared with that
// value.
#pragma once

#include <optional>

#include "engine/search/evaluations.hpp"

namespace cultivar {

// Not thread-safe. All references outlive it.
class IncumbentPace {
 public:
  IncumbentPace(const Config&, Recorder&, Breeding&, ParsedSources&, Pipeline&);

  void start_if_due();
  // True during the first measurement of a session: other measurements must wait for it.
  bool awaited() const { return out_ && unknown_; }
  // A compiled job goes to the device; a measured one sets the pace.
  void returned(const JobPtr&, Pace&);
  void lost() { out_ = false; }  // returned without a result
  void give_up();                // no worker was available: continue with the last known pace

  const Medians& medians_us() const { return medians_us_; }
  void set_medians(const Evaluation&);  // of the incumbent

 private:
  struct Reading {
    IndividualId id = 0;
    Evaluation evaluation;
  };
  double pace_of(const Reading&) const;
  double jump_of(const Reading&) const;  // the logarithm of its ratio to the current pace
  void measured(Reading);

  const Config& config_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;

  Medians medians_us_;
  bool out_ = false;                // a job is in flight
  bool unknown_;                    // not measured since the search was resumed
  double gap_s_, due_;              // due: in Recorder::elapsed()
  std::optional<Reading> doubted_;  // must be measured again before it counts
};

}  // namespace cultivar
