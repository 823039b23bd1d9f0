// SPDX-License-Identifier: Apache-2.0
// Tunes the knobs of one source with a surrogate that is trained on every individual with that source.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operators/operator.hpp"

namespace cultivar {

class TuneOperator : public Operator {
 public:
  explicit TuneOperator(std::uint64_t run_seed, bool rankings = true,
                        bool avoids_refusals = true);  // see TunerOptions
  ~TuneOperator() override;

  std::string name() const override { return "tune"; }
  int parents_wanted() const override { return 1; }
  // Proposes for the parent's source; if its space is exhausted, for the fittest source with a remaining
  // space.
  std::optional<Proposal> propose(const OperatorContext&, RandomStream&) override;
  void observe(IndividualId, const Archive&) override;

 private:
  struct Study;  // for one source: its space and its tuner
  Study& study_of(const std::string& source_id, const OperatorContext&);
  std::optional<Proposal> propose_from(IndividualId parent, const OperatorContext&);

  std::uint64_t run_seed_;
  bool rankings_, avoids_refusals_;
  std::map<std::string, std::unique_ptr<Study>> studies_;
  std::map<std::string, std::vector<IndividualId>>
      unread_;                                   // by source: evaluated, but not yet passed to its tuner
  std::map<std::string, IndividualId> fittest_;  // by source
};

}  // namespace cultivar
