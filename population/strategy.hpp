// SPDX-License-Identifier: Apache-2.0
// Which individuals remain parents, and which of them become the parents of the next proposal. Each strategy
// is one file pair in strategies/ and one row in strategy.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/system/random.hpp"
#include "population/archive.hpp"
#include "population/individual.hpp"

namespace cultivar {

// A kernel that is slower than another one by this factor is left behind: changes of it teach little about
// that one.
inline constexpr double kLeftBehind = 1.5;

// A parent that a strategy keeps.
struct Elite {
  IndividualId id = 0;
  double fitness = 0.0;
  bool immigrant = false;  // born on another island
  std::string source = {};
  IndividualId family = 0;
  std::vector<double> workload_values = {};  // in the order of the search's workloads

  friend bool operator==(const Elite&, const Elite&) = default;
};

// Sorts the fittest first; of equals the older one, so that the order never depends on chance.
inline bool fitter(const Elite& a, const Elite& b) {
  return a.fitness != b.fitness ? a.fitness > b.fitness : a.id < b.id;
}

// A move of a parent between the parts of a population.
struct Migration {
  IndividualId id = 0;
  int from = 0, to = 0;
  bool reset = false;  // all others left the island before it came; `from` is `to` if it was on no other

  friend bool operator==(const Migration&, const Migration&) = default;
};

// What the evaluation of an individual found, as far as later decisions depend on it. Everything here is in
// the record, so that a replay decides the same.
struct Findings {
  bool measured = false;
  double fitness = 0.0;
  IndividualId duplicate_of = 0;             // 0: none
  double device_s = 0.0;                     // of checks and measurements
  std::optional<Stage> rejected_at = {};     // the stage of a rejection
  std::vector<double> workload_values = {};  // in the order of the search's workloads
  std::map<std::string, double> descriptors =
      {};               // by name: what the compiler reported, for example registers
  double spread = 0.0;  // of log(fitness): see spread_of in engine/store/record_writer.hpp; 0: not known
};

// What the second parent has to be for the first.
enum class Partner {
  any,
  tuning,     // another setting of the same source, if there is one
  complement  // of another source, faster where the first is slow, and neither descends from the other
};

struct ParentsWanted {
  int count = 1;
  Partner partner = Partner::any;
  std::set<std::string> avoid = {};  // source ids: not as the first parent, if another one is possible
};

enum class StrategyKind { islands, lineage, map_elites };

struct PopulationOptions {
  StrategyKind strategy = StrategyKind::islands;
  // The version of the decision rules. 1: the decisions of records from before strategies; only for islands.
  int rules = 11;
  int tournament = 8;    // number of elites drawn for one parent; the fittest is chosen
  double explore = 0.1;  // islands: probability that a parent is any measured individual of its island;
                         // map_elites: that its cell is drawn without a tournament
  // With every strategy: the share of the proposals that continue the fastest kernel of a random workload,
  // which thus remains a parent (strategies/specialists.hpp); 0: none.
  double specialists = 0.0;
  // Of islands:
  int islands = 3;
  int elites = 8;          // per island
  int migrate_every = 24;  // judged individuals between two migrations; 0: no migration
  int immigrants = 2;      // maximum number of elites of one island that were born elsewhere
  int family_elites = 4;   // rules 2: elites of one family on a full island; more make way for other families
  int reset_after = 120;   // rules 2: measured individuals of an island without a better one until it is
                           // begun anew; 0: never
  double lead = 0.6;  // rules 2: share of the proposals that the island of the fittest gets; islands take
                      // turns in the others
  // Of map_elites:
  std::vector<std::string> axes = {};  // descriptors, tunables, "family"; see strategies/map_elites.hpp
  int cells = 64;                      // the weakest one is emptied when there are more

  friend bool operator==(const PopulationOptions&, const PopulationOptions&) = default;
};

// Not thread-safe. Equal histories give equal strategies: no clock, and no random stream but the given ones.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // The number of parts of the population that take turns in proposing.
  virtual int islands() const { return 1; }
  // The part whose turn it is after so many proposals.
  virtual int turn(std::int64_t proposals) const { return static_cast<int>(proposals % islands()); }
  // Adds a measured individual. The archive holds it and all of its ancestors.
  virtual void settle(IndividualId, const Findings&, const Archive&) = 0;
  // Another fitness is known for an individual, for example from a comparison.
  virtual void revalue(IndividualId, double fitness) = 0;
  // Removes an individual that turned out to be wrong (a failed confirmation): it is no longer a parent.
  virtual void expel(IndividualId) = 0;
  virtual void promoted(IndividualId) {}
  // Counts one judged individual, and returns the moves that are due after it.
  virtual std::vector<Migration> judged() { return {}; }
  // Begins the least promising part anew, with this measured founder, or with the elite of another part (0).
  // Empty if the population has only one part, or no such elite.
  virtual std::vector<Migration> reset(const Archive&, IndividualId /*founder*/ = 0) { return {}; }
  // Different parents, fittest first; fewer if there are fewer.
  virtual std::vector<IndividualId> parents(int island, const ParentsWanted&, const Archive&,
                                            RandomStream&) const = 0;
  virtual std::vector<Elite> elites(int island) const = 0;  // fittest first
};

// Throws std::invalid_argument for options out of range.
std::unique_ptr<Strategy> make_strategy(const PopulationOptions&);

std::string_view name_of(StrategyKind);
std::vector<std::string> strategy_names();
StrategyKind strategy_named(std::string_view);  // throws std::out_of_range

}  // namespace cultivar
