// Profiles of what was promoted, where the configuration asks for them. They explain; nothing is decided by
// them.
#pragma once

#include "engine/breeding/breeding.hpp"
#include "engine/search/pipeline.hpp"
#include "engine/search/recorder.hpp"

namespace cultivar {

// Not thread-safe. All references outlive it.
class Profiles {
 public:
  Profiles(const Config&, Recorder&, const Breeding&, ParsedSources&, Pipeline&);

  void promoted(IndividualId);  // only the newest counts
  void start();                 // the next one, unless one is out
  // Compiled, and goes on to the device; or measured.
  void returned(const JobPtr&, TakeProfile&);
  void failed(IndividualId, const Error&);  // no worker could be had; the search does not need it
  void lost() { in_flight_ = false; }       // came back without a result

 private:
  void record(IndividualId, const ProfilePartial&);

  const Config& config_;
  Recorder& recorder_;
  const Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;

  bool in_flight_ = false;   // a job is in the pipeline
  IndividualId wanted_ = 0;  // promoted, and not profiled yet
  bool disabled_ = false;    // further ones would fail as well
};

}  // namespace cultivar
