// New individuals: seeds, proposals of operators, and submissions.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/breeding/breeding.hpp"
#include "engine/search/recorder.hpp"
#include "engine/store/run_folder.hpp"

namespace cultivar {

// The next individual, made from a proposal, as it is recorded.
Individual introduced(const Breeding&, const Proposal&, const ParsedVariant&);

// Admits each individual to the population and records it; the caller has it evaluated. Not thread-safe. All
// references outlive it.
class Proposals {
 public:
  Proposals(const Config&, const RunFolder&, Recorder&, Breeding&, ParsedSources&);

  // The seeds of the configuration; if the argument is empty, reads their files.
  std::vector<IndividualId> seeds(std::vector<VariantPtr>);
  // `room`: the limits that applied when operators could ask language models.
  IndividualId bred(const NewProposal&, const std::optional<AskingLimits>& room);
  // Takes the submissions from the run's inbox, at most twice a second; moves invalid files to `damaged`.
  std::vector<IndividualId> submissions();

 private:
  const Config& config_;
  const RunFolder& folder_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  double looked_ = -1.0;  // last look into the inbox, in Recorder::elapsed()
};

}  // namespace cultivar
