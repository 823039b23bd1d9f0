// SPDX-License-Identifier: Apache-2.0
// Creates a run's individuals: from seeds, from operators' proposals and from submissions.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/breeding/breeding.hpp"
#include "engine/search/recorder.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/store/submissions.hpp"

namespace cultivar {

// The individual that records this proposal, with the next id.
Individual introduced(const Breeding&, const Proposal&, const ParsedVariant&);

// Each function admits the individuals to the population and records them; the caller has them evaluated.
// Not thread-safe. All references outlive it.
class Proposals {
 public:
  Proposals(const Config&, const RunFolder&, Recorder&, Breeding&, ParsedSources&);

  // The configuration's seeds, in its order. If empty, they are read from its files.
  std::vector<IndividualId> seeds(std::vector<VariantPtr>);
  // `room`: the limits that breed() was called with, to be recorded; nullopt if no operator asks a model.
  IndividualId bred(const NewProposal&, const std::optional<AskingLimits>& room);
  // Takes submissions from the run's inbox, a few at a time, and puts invalid files aside. Reads the inbox at
  // most twice per second.
  std::vector<IndividualId> submissions();

 private:
  const Config& config_;
  Inbox inbox_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  double next_look_ = 0.0;  // next read of the inbox, in Recorder::elapsed()
};

}  // namespace cultivar
