// How fast the incumbent runs now. Another day, another card, a warmer room: it is measured once more when a
// search is resumed and from time to time, and what is measured beside it is compared with that.
#pragma once

#include <optional>

#include "engine/search/evaluations.hpp"

namespace cultivar {

// Not thread-safe. All references outlive it.
class IncumbentPace {
 public:
  IncumbentPace(const Config&, Recorder&, Breeding&, ParsedSources&, Pipeline&);

  void start_if_due();
  // It is being measured for the first time in this session: what is measured beside it must wait.
  bool awaited() const { return in_flight_ && unknown_; }
  // Compiled, and goes on to the device; or measured.
  void returned(const JobPtr&, Pace&);
  void lost() { in_flight_ = false; }  // came back without a result
  void give_up();                      // no worker could be had: without, rather than not at all

  const Medians& medians_us() const { return medians_us_; }
  void set_medians(const Evaluation&);  // of the incumbent

 private:
  struct Reading {
    IndividualId id = 0;
    Evaluation evaluation;
  };
  double pace_of(const Reading&) const;
  double jump_of(const Reading&) const;  // from the present pace, as a logarithm
  void measured(Reading);

  const Config& config_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;

  Medians medians_us_;
  bool in_flight_ = false;              // a job is in the pipeline
  bool unknown_;                        // resumed, and not measured since
  double gap_s_, due_;                  // due: in Recorder::elapsed()
  std::optional<Reading> unconfirmed_;  // measured again before it counts
};

}  // namespace cultivar
