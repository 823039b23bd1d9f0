// Individuals that come into being: seeds, what the operators breed, and what people submit.
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

// What the record gets of a proposal, as the next individual.
Individual introduced(const Breeding&, const Proposal&, const ParsedVariant&);

// Each is admitted to the population and recorded, to be evaluated by whoever asked for it. Not thread-safe.
// All references outlive it.
class Proposals {
 public:
  Proposals(const Config&, const RunFolder&, Recorder&, Breeding&, ParsedSources&);

  // Of the configuration; empty: read from its files.
  std::vector<IndividualId> seeds(std::vector<VariantPtr>);
  // `room`: there was that much of it, when language models are asked.
  IndividualId bred(const NewProposal&, const std::optional<AskingLimits>& room);
  // What waits in the run's inbox; what is no submission is put aside. A few at a time, and
  // twice a second at most.
  std::vector<IndividualId> submissions();

 private:
  const Config& config_;
  Inbox inbox_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  double next_look_ = 0.0;  // into the inbox, in Recorder::elapsed()
};

}  // namespace cultivar
