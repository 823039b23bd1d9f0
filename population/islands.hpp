// Islands: separate breeding populations with their own elites, which exchange a few of them at intervals.
#pragma once

#include <cstdint>
#include <vector>

#include "population/individual.hpp"

namespace cultivar {

struct IslandOptions {
  int islands = 3;
  int elites = 8;          // per island
  int migrate_every = 24;  // judged individuals between two migrations; 0: no migration
  int immigrants = 2;      // maximum number of elites of one island that were born elsewhere
  int tournament = 2;      // number of elites drawn for one parent; the fittest is chosen
  double explore = 0.2;    // probability that a parent is drawn from all of the island's measured individuals

  friend bool operator==(const IslandOptions&, const IslandOptions&) = default;
};

struct Elite {
  IndividualId id = 0;
  double fitness = 0.0;
  bool immigrant = false;

  friend bool operator==(const Elite&, const Elite&) = default;
};

struct Migration {
  IndividualId id = 0;
  int from = 0, to = 0;

  friend bool operator==(const Migration&, const Migration&) = default;
};

// A value type: equal histories give equal islands. Not thread-safe.
class Islands {
 public:
  explicit Islands(const IslandOptions&);

  // Adds a measured individual to the island where it was born, and a founder (seed, submission) to all
  // islands.
  void settle(IndividualId, double fitness, int island);
  void settle_everywhere(IndividualId, double fitness);
  // Its fitness is known better: ranks it anew, on every island where it lives.
  void revise(IndividualId, double fitness);
  // Removes an individual that turned out to be wrong (a failed confirmation): it is no longer a parent.
  void expel(IndividualId);
  // Counts one judged individual. When a migration is due, copies the best native of each island to the next
  // island in a ring.
  std::vector<Migration> judged();

  int count() const { return static_cast<int>(islands_.size()); }
  const std::vector<Elite>& elites(int island) const;  // fittest first
  const std::vector<IndividualId>& members(
      int island) const;  // all measured individuals, in order of evaluation

 private:
  struct Island {
    std::vector<Elite> elites;
    std::vector<IndividualId> members;
  };
  bool admit(Island&, Elite);

  IslandOptions options_;
  std::vector<Island> islands_;
  std::int64_t judged_ = 0;
};

}  // namespace cultivar
