// Where individuals breed: islands, each with its elites, that exchange a few of them now and then.
#pragma once

#include <cstdint>
#include <vector>

#include "population/individual.hpp"

namespace cultivar {

struct IslandOptions {
  int islands = 3;
  int elites = 8;          // of one island
  int migrate_every = 24;  // judged individuals between two migrations; 0: never
  int immigrants = 2;      // at most so many elites of one island were born elsewhere
  int tournament = 2;      // elites drawn for one parent, the fittest of which is taken
  double explore = 0.2;    // chance that a parent comes from all of the island's measured individuals

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

// A value: equal histories give equal islands. Not thread-safe.
class Islands {
 public:
  explicit Islands(const IslandOptions&);

  // A measured individual joins the island where it was born; a founder (seed, submission) joins all of them.
  void settle(IndividualId, double fitness, int island);
  void settle_everywhere(IndividualId, double fitness);
  // It turned out to be wrong after all (a failed confirmation): it breeds no more.
  void expel(IndividualId);
  // Counts one judged individual; when it is time, the best native of each island is copied to the next in a
  // ring.
  std::vector<Migration> judged();

  int count() const { return static_cast<int>(islands_.size()); }
  const std::vector<Elite>& elites(int island) const;          // fittest first
  const std::vector<IndividualId>& members(int island) const;  // every measured one, in order of judgement

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
