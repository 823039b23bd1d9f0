// SPDX-License-Identifier: Apache-2.0
// Profiles of winners of duels and incumbents, and of what was measured clearly faster than them, if the
// configuration requests them. No decision depends on a profile.
#pragma once

#include "engine/breeding/breeding.hpp"
#include "engine/search/pipeline.hpp"
#include "engine/search/recorder.hpp"

namespace cultivar {

// Not thread-safe. All references outlive it.
class Profiles {
 public:
  Profiles(const Config&, Recorder&, const Breeding&, ParsedSources&, Pipeline&);

  // Requests a profile of the first measured individual, in a session that begins without an incumbent: it is
  // the evidence of the first questions, which wait while it is due. Only the first call has an effect.
  void measured_first(IndividualId);
  bool first_due() const { return first_ != 0 && !first_done_; }
  // Requests a profile of a measured individual that is clearly faster than all whose profiles were requested
  // in this session, and than the incumbent: questions about it do not wait for its duel.
  void measured(IndividualId);
  // Requests a profile of this individual, the winner of a duel or the new incumbent, in place of an earlier
  // request that has not started. A second request for the same one has no effect.
  void request(IndividualId);
  void start();  // sends the requested one, unless one is in flight
  // Takes a returned job: sends a compiled one to the device, records a measured one.
  void returned(const JobPtr&, TakeProfile&);
  void failed(IndividualId, const Error&);  // no worker was available: no more profiles in this session
  void lost() {                             // the job returned without a result
    in_flight_ = false;
    first_done_ = true;
  }

 private:
  void record(IndividualId, const ProfilePartial&);
  const Workload& workload_of(IndividualId) const;  // to be profiled

  const Config& config_;
  Recorder& recorder_;
  const Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;

  bool in_flight_ = false;   // a job is in the pipeline
  IndividualId wanted_ = 0;  // requested but not yet profiled; 0: none
  IndividualId last_ = 0;    // the latest request; 0: none
  double fittest_ = 0.0;     // of all that were requested
  IndividualId first_ = 0;   // see measured_first(); 0: none
  bool first_done_ = false;
  bool disabled_ = false;  // because further profiles would fail too
};

}  // namespace cultivar
