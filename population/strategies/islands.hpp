// SPDX-License-Identifier: Apache-2.0
// Islands: separate breeding populations with their own elites, which exchange a few of them at intervals.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "population/strategy.hpp"
#include "population/tunings.hpp"

namespace cultivar {

// Rules 2: a source has one place among an island's elites, a family PopulationOptions::family_elites if
// others need the places, and an island without progress is begun anew. Rules 3: an island that has only
// founders takes an elite of another island at once that is three times as fast. Rules 11: after a
// duel the place of a source goes to its fittest setting; before, it stayed with the one that was measured
// best, perhaps while the machine was fast. Rules 1 keep any fit individuals, and choose partners like first
// parents.
class Islands : public Strategy {
 public:
  explicit Islands(const PopulationOptions&);

  int islands() const override { return static_cast<int>(islands_.size()); }
  int turn(std::int64_t proposals) const override;
  // On the island where it was born; a founder (seed, submission) on all islands.
  void settle(IndividualId, const Findings&, const Archive&) override;
  void revalue(IndividualId, double fitness) override;
  void expel(IndividualId) override;
  // When a migration is due, copies the best native of each island to the next island in a ring. Begins an
  // island anew that has had no better individual for too long, unless it has the fittest of all.
  std::vector<Migration> judged() override;
  std::vector<Migration> reset(const Archive&, IndividualId founder = 0) override;
  std::vector<IndividualId> parents(int island, const ParentsWanted&, const Archive&,
                                    RandomStream&) const override;
  std::vector<Elite> elites(int island) const override;
  // In order of evaluation: all measured individuals, by rules 2 the first of each source.
  const std::vector<IndividualId>& members(int island) const;

 private:
  struct Island {
    std::vector<Elite> elites;
    std::vector<IndividualId> members;
    std::set<std::string> sources;  // rules 2: of the members
    double best = 0.0;              // fitness of its best native since it was begun
    int barren = 0;                 // natives measured since then
    int natives = 0;                // measured in all since it was begun
    bool begun = false;             // anew
    bool bred = false;              // an operator's individual was born here
    // Migrants, which are fitter at first, would end its new line.
    bool young(const PopulationOptions&) const;
  };
  void settle(Island&, const Elite&);
  bool admit(Island&, const Elite&);
  // The elite's place goes to the fittest setting of its source, if there is one.
  void give_place(Island&, std::vector<Elite>::iterator);
  std::vector<Migration> migrate();
  std::vector<Migration> catch_up();
  std::vector<Migration> begin_anew(std::size_t island);
  std::vector<Migration> begin_anew(std::size_t island, Elite founder, std::size_t from);
  std::size_t leader() const;  // the island with the fittest elite
  Elite explored(const Island&, const ParentsWanted&, const Archive&, RandomStream&) const;
  std::vector<IndividualId> parents_by_rules_1(const Island&, int count, const Archive&, RandomStream&) const;

  PopulationOptions options_;
  std::vector<Island> islands_;
  Tunings tunings_;
  std::int64_t judged_ = 0;
};

}  // namespace cultivar
