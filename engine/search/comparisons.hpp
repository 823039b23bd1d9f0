// Decides which individual replaces the incumbent, by duels and by the confirmation of their winners. Only
// this class promotes.
#pragma once

#include <optional>
#include <vector>

#include "engine/search/incumbent_pace.hpp"
#include "evaluators/statistics/alpha_ledger.hpp"

namespace cultivar {

// Not thread-safe. All references outlive it.
class Comparisons {
 public:
  // `contenders`: timed in every confirmation, like the configured libraries.
  Comparisons(const Config&, Evaluator&, Recorder&, Breeding&, ParsedSources&, Pipeline&, SecondTries&,
              std::vector<VariantPtr> contenders);

  bool out() const { return out_; }
  bool due() const { return breeding_.winner() != 0 || breeding_.challenger().has_value(); }
  void start();  // the next comparison, unless one is in flight
  // A compiled job goes to the device; a measured one is decided.
  struct Outcome {
    std::optional<Error> trouble = {};  // of the machine, not of a candidate: try again
    IndividualId promoted = 0;
  };
  Outcome returned(const JobPtr&, Duel&);
  Outcome returned(const JobPtr&, Confirm&);
  void lost() { out_ = false; }  // returned without a result: it is due again

  IncumbentPace& pace() { return pace_; }

 private:
  VariantPtr variant_of(IndividualId) const;
  void confirm(IndividualId);
  void duel(IndividualId);
  void send(IndividualId, Job::Work);
  void measure(const JobPtr&);
  void decide(IndividualId, const GateRequest&, const GateReport&);
  IndividualId confirmed(IndividualId,
                         const Evaluation&);  // the promoted one; 0: expelled, or to be tried again

  const Config& config_;
  Evaluator& evaluator_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;
  SecondTries& second_tries_;

  const std::vector<VariantPtr> contenders_;
  std::vector<Compiled> libraries_;   // contenders as libraries
  std::vector<Workload> everything_;  // the search's workloads and the holdout
  std::vector<Workload> holdout_;
  bool out_ = false;  // a job is in the pipeline
  AlphaLedger ledger_;
  IncumbentPace pace_;
};

}  // namespace cultivar
