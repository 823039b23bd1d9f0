// SPDX-License-Identifier: Apache-2.0
// Every decision of a search that needs no measurement: what is proposed, on which island an individual
// lives, which individual challenges the incumbent. The same history leads to the same decisions in a search,
// in a resumed search and in a replay.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/breeding/offspring.hpp"
#include "engine/breeding/parsed_sources.hpp"
#include "engine/breeding/steering.hpp"
#include "engine/config/config.hpp"
#include "operators/asking_operator.hpp"
#include "operators/portfolio.hpp"
#include "operators/supervisor/supervisor.hpp"
#include "population/archive.hpp"
#include "population/strategy.hpp"

namespace cultivar {

// Not thread-safe. Stores no sources and no samples. It has more than 25 functions because each kind of
// decision in the record has one, which a search, a resumed search and a replay all call; half of them only
// return a member.
class Breeding {
 public:
  // `sources` outlives it.
  Breeding(const Config&, Facts, ParsedSources& sources);

  // --- Decisions: these functions do not change the history. ---

  // The next proposal, or the next question to a model. nullopt: no operator has anything new while the
  // current individuals are in flight.
  std::optional<Offspring> breed(const AskingLimits&);
  // The supervisor's next decision; to be asked for, recorded and applied before breed().
  std::optional<Supervision> supervise() const;
  const Supervisor& supervisor() const { return supervisor_; }
  // For each arm of the portfolio, the probability that it is tried next.
  std::vector<double> shares() const { return bandit_.shares(); }
  const std::vector<Portfolio::Arm>& arms() const { return portfolio_.arms(); }
  // True if proposals may be made: every seed has been judged and at least one individual was measured.
  bool ready() const { return seeds_in_flight_ == 0 && measured_ > 0; }
  bool seeds_judged() const { return seeds_in_flight_ == 0; }
  // Of the individuals that wait for their duel or confirmation, the fittest that descends from this one's
  // source, has another source and leaves it behind. 0: none, or the incumbent has already done so.
  IndividualId left_behind_by(IndividualId) const;
  // The next challenger, among measured individuals that were not compared before. First, submissions whose
  // fitness is at least 0.95 of the incumbent's; then individuals that appear faster by at least half of the
  // gate's minimum gain; of each the one whose fitness is highest at the lower end of what its measurement
  // may be off by (rules 10; before, the fittest). Before the first incumbent, every measured individual
  // qualifies. Last, those whose duel against this incumbent may go on, at most kMostParts times. nullopt
  // also until all seeds are judged.
  std::optional<IndividualId> challenger() const;
  std::size_t challengers() const { return waiting_.size() + open_duels_.size(); }  // their number
  // During its duel: one that waits and is faster than both sides by more than their bounds. 0: none.
  IndividualId overtakes(IndividualId challenger) const;
  // An earlier individual with the same source and values, or with the same machine code and plans.
  std::optional<IndividualId> twin_by_variant(const std::string& variant_id) const;
  std::optional<IndividualId> twin_by_machine_code(const std::string& hash) const;

  // --- History, in the order of the record. ---

  // A question was asked; its number is next_asking(). It stays open until admit(), direct() or give_up().
  void ask(const Brief&);
  void give_up(std::int64_t asking, double usd, double device_s = 0.0);
  // The question ended with directions for other operators, or with insights for all later questions, and
  // made no individual. The bandit credits the arms that follow the directions.
  void direct(std::int64_t asking, const Directions&);
  // An individual was proposed; its id is next_id(). `asking`: the question that led to it, 0 if none.
  // `device_s`: the device time in seconds that the question's tools used.
  void admit(const Individual&, std::int64_t asking = 0, double device_s = 0.0);
  // This kernel is about to be measured: later individuals with equal machine code are its duplicates.
  void claim_machine_code(IndividualId, const std::string& hash);
  std::vector<Migration> judge(IndividualId, Findings);
  // The incumbent was measured again: individuals judged from now on were measured at this pace, relative to
  // the pace at which the first incumbent was measured. judge() divides fitness by it, so all fitness in the
  // archive is at the pace of the first incumbent.
  void paced(double pace) { pace_ = pace; }
  double pace() const { return pace_; }
  static constexpr int kMostParts = 4;  // of one duel
  // The verdict of the gate. With a result, the challenger's fitness becomes the incumbent's times their
  // ratio; records of earlier versions have none.
  void compared(IndividualId challenger, Verdict, bool may_go_on = false,
                std::optional<DuelResult> result = {});
  // The gate's settings before the first individual, and those of a resumed search: whose duel against the
  // present incumbent was undecided is compared again.
  void begin_with(const GateOptions& gate) { config_.gate = gate; }
  void change(const GateOptions&);
  // The supervisor's decisions. begin() returns the moves of a reset.
  std::vector<Migration> begin(const Intervention&);
  void end(const InterventionResult&);
  // What a kernel at the device's measured peaks would have as its fitness; 0: unknown. Never changes.
  void set_roofline(double fitness) { roofline_ = fitness; }
  void promote(IndividualId);
  void expel(IndividualId);  // it failed its confirmation
  // Makes new operators that learn again from the archive. A resumed search does this, so a replay must too.
  void rebuild_operators();

  // The individual that won its duel and whose confirmation is pending; 0: none.
  IndividualId winner() const { return winner_; }
  IndividualId next_id() const { return archive_.size() + 1; }
  std::int64_t next_asking() const { return asked_ + 1; }
  const std::map<std::int64_t, Brief>& open_askings() const { return open_; }
  const Brief& brief_of(std::int64_t asking) const {
    return briefs_.at(static_cast<std::size_t>(asking - 1));
  }
  const std::vector<std::string>& insights() const { return insights_.words; }  // the newest ones
  IndividualId incumbent() const { return incumbent_; }
  IndividualId control() const { return control_; }  // the first incumbent; never changes
  const Archive& archive() const { return archive_; }
  const Strategy& strategy() const { return *strategy_; }
  const Task& task() const { return sources_.task(); }
  const std::vector<Workload>& workloads() const { return workloads_; }
  const Facts& facts() const { return facts_; }
  std::int64_t judged() const { return judged_; }

 private:
  bool deserves_a_duel(IndividualId) const;
  bool submitted(IndividualId) const;
  // Rules 3: a question is not about a kernel that is left behind, nor about a slow one whose first offspring
  // is not judged yet. Interventions that choose other parents choose them in any case.
  bool chooses_subjects() const;
  bool waits_for_offspring(IndividualId subject) const;
  // The ratio to the nearest measured ancestor by first parents, minus 1; 0 if it is not more than noise.
  double gain_over_parent(IndividualId) const;
  std::vector<IndividualId> parents_for(const Operator&, int island, const std::set<std::string>& avoid,
                                        RandomStream&) const;
  Portfolio make_portfolio() const;

  Config config_;
  ParsedSources& sources_;
  std::function<std::string(const std::string&)> source_of_;  // given to operators
  std::vector<Workload> workloads_;
  Facts facts_;
  Archive archive_;
  std::unique_ptr<Strategy> strategy_;
  Novelty novelty_;
  // Machine code of individuals that are being measured; after a resume they are evaluated again.
  std::map<IndividualId, std::string> claims_;
  Portfolio portfolio_;
  Bandit bandit_;
  Supervisor supervisor_;
  Lately lately_;
  int stage_ = -1;                      // the island from which an intervention breeds; -1: all
  std::vector<IndividualId> branch_;    // without islands: an ancestor, and what was measured of its new line
  std::vector<Brief> briefs_;           // of all questions
  std::map<std::int64_t, Brief> open_;  // open questions, by number
  std::map<std::int64_t, std::int64_t> asked_under_;  // interventions, by open question
  std::set<std::uint64_t> known_briefs_;  // hashes of what was asked: operator, source, direction, round
  std::int64_t planned_under_ = 0;        // the last intervention during which a planner asked
  std::int64_t inherited_under_ = 0;      // and during which settings of the best were tried
  struct Trial {
    std::uint32_t arm = 0;
    std::uint32_t under = 0;  // the intervention that led to it
  };
  std::vector<Trial> trials_;  // by individual
  struct Expense {
    float usd = 0.0F;
    float device_s = 0.0F;  // used by the tools of its question
  };
  std::map<IndividualId, Expense> expenses_;  // of questions that led to individuals
  // What operators learned from, in order: the id of a judged individual, or minus the number of a question.
  std::vector<std::int32_t> lessons_;
  struct Directed {
    std::size_t after = 0;  // the number of lessons before it
    IndividualId subject = 0;
    Directions given;
  };
  std::vector<Directed> directed_;  // also learned from, in order
  Directions insights_;
  // Ordered by who is the next challenger: a submission first, then the fittest (see challenger()), then the
  // oldest. There may be thousands.
  using Rank = std::tuple<bool, double, IndividualId>;
  static IndividualId id_of(const Rank& rank) { return -std::get<IndividualId>(rank); }
  Rank rank_of(IndividualId) const;
  // How far log(fitness) may be off: by its duel, or by its measurement.
  double error_of(IndividualId) const;
  void no_challenger(IndividualId);
  std::set<Rank> waiting_;                 // possible challengers
  std::map<IndividualId, float> spreads_;  // of the measurements of those that were ever one
  std::map<IndividualId, int> undecided_;  // against the incumbent: the parts of its duel
  std::set<Rank> open_duels_;              // those that may go on
  IndividualId incumbent_ = 0, control_ = 0, winner_ = 0;
  double pace_ = 1.0, roofline_ = 0.0;
  std::int64_t seeds_in_flight_ = 0, measured_ = 0, bred_ = 0, judged_ = 0, asked_ = 0;
};

// A hash of the machine code and the launch plans. Equal hashes mean the same kernel.
std::string kernel_hash(const std::vector<std::string>& machine_code, const Variant&, const Task&,
                        const std::vector<Workload>&, const Facts&);

}  // namespace cultivar
