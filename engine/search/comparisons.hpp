// Who replaces the incumbent: duels, and the confirmation of whoever won. The only place that promotes.
#pragma once

#include <optional>
#include <vector>

#include "engine/search/incumbent_pace.hpp"
#include "evaluators/statistics/alpha_ledger.hpp"

namespace cultivar {

// Not thread-safe. All references outlive it.
class Comparisons {
 public:
  // `contenders`: timed beside whatever is confirmed, as the configuration's libraries are.
  Comparisons(const Config&, Evaluator&, Recorder&, Breeding&, ParsedSources&, Pipeline&, SecondTries&,
              std::vector<VariantPtr> contenders);

  bool in_flight() const { return in_flight_; }
  bool due() const { return breeding_.winner() != 0 || breeding_.challenger().has_value(); }
  void start();  // the next one, unless one is out
  // Compiled, and goes on to the device; or decided.
  struct Outcome {
    std::optional<Error> trouble = {};  // of the machine, not of a candidate: to be done again
    IndividualId promoted = 0;
  };
  Outcome returned(const JobPtr&, Duel&);
  Outcome returned(const JobPtr&, Confirm&);
  void lost() { in_flight_ = false; }  // came back without a result: it is due again

  IncumbentPace& pace() { return pace_; }

 private:
  VariantPtr variant_of(IndividualId) const;
  void confirm(IndividualId);
  void duel(IndividualId);
  void send(IndividualId, Job::Work);
  void measure(const JobPtr&);
  void decide(IndividualId, const GateRequest&, const GateReport&);
  IndividualId confirmed(IndividualId, const Evaluation&);  // promoted; 0: expelled, or tried again

  const Config& config_;
  Evaluator& evaluator_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;
  SecondTries& second_tries_;

  const std::vector<VariantPtr> contenders_;
  std::vector<Compiled> libraries_;   // contenders too
  std::vector<Workload> everything_;  // the search's workloads, and the holdout
  std::vector<Workload> holdout_;
  bool in_flight_ = false;  // a job is in the pipeline
  AlphaLedger ledger_;
  IncumbentPace pace_;
};

}  // namespace cultivar
