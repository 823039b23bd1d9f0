// SPDX-License-Identifier: Apache-2.0
// Beside another strategy: the fastest individual of each workload remains a parent, however slow it is on
// the others.
#pragma once

#include <memory>

#include "population/strategy.hpp"

namespace cultivar {

class Specialists : public Strategy {
 public:
  // `options.specialists`: the share of the proposals with one parent, or with any two, that get the fastest
  // individual of a random workload as their only or second parent.
  Specialists(const PopulationOptions& options, std::unique_ptr<Strategy> others)
      : share_(options.specialists), others_(std::move(others)) {}

  int islands() const override { return others_->islands(); }
  int turn(std::int64_t proposals) const override { return others_->turn(proposals); }
  void settle(IndividualId, const Findings&, const Archive&) override;
  void revalue(IndividualId, double fitness) override;
  void expel(IndividualId) override;
  void promoted(IndividualId id) override { others_->promoted(id); }
  std::vector<Migration> judged() override { return others_->judged(); }
  std::vector<Migration> reset(const Archive& archive, IndividualId founder) override {
    return others_->reset(archive, founder);
  }
  std::vector<IndividualId> parents(int island, const ParentsWanted&, const Archive&,
                                    RandomStream&) const override;
  std::vector<Elite> elites(int island) const override;  // also the fastest of each workload
  const Strategy& others() const { return *others_; }

 private:
  double share_;
  std::unique_ptr<Strategy> others_;
  // By workload, the fastest first; some more, because the fastest may be expelled.
  std::vector<std::vector<Elite>> fastest_;
};

}  // namespace cultivar
