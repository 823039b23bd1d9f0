// Tunes the knobs of one source: a surrogate learns from every individual that shares it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operators/operator.hpp"

namespace cultivar {

class TuneOperator : public Operator {
 public:
  explicit TuneOperator(std::uint64_t run_seed);
  ~TuneOperator() override;

  std::string name() const override { return "tune"; }
  int parents_wanted() const override { return 1; }
  // From the parent's source; when its space is exhausted, from the source of the fittest that still has one.
  std::optional<Proposal> propose(const Surroundings&, RandomStream&) override;
  void observe(IndividualId, const Archive&) override;

 private:
  struct Study;  // one source: its space and its tuner
  Study& study_of(const std::string& source_id, const Surroundings&);
  std::optional<Proposal> propose_from(IndividualId parent, const Surroundings&);

  std::uint64_t run_seed_;
  std::map<std::string, std::unique_ptr<Study>> studies_;
  std::map<std::string, std::vector<IndividualId>> unread_;  // by source: judged, not told to its tuner yet
  std::map<std::string, IndividualId> fittest_;              // by source
};

}  // namespace cultivar
