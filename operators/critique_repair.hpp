// A failed or slow variant: first a critique that cites evidence, then a repair; round after round, each
// judged.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "operators/operator.hpp"

namespace cultivar {

class CritiqueRepair : public AskingOperator {
 public:
  explicit CritiqueRepair(int rounds) : rounds_(rounds) {}

  std::string name() const override { return "critique_repair"; }
  int parents_wanted() const override { return 1; }
  // The newest failure of a written source that has rounds left; when there is none, the parent that
  // selection offers, as a slow one, once for each source.
  std::optional<Brief> plan(const Surroundings&, RandomStream&) override;
  void asked(const Brief&, const Archive&) override;
  void observe(IndividualId, const Archive&) override;

 private:
  int rounds_;
  std::vector<IndividualId> failures_;  // not asked about yet, oldest first
  std::set<std::string> slow_;          // source ids that were asked about
};

}  // namespace cultivar
