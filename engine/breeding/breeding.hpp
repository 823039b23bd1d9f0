// Every decision of a search that needs no measurement: which variant is proposed, on which island an
// individual lives, which one challenges the incumbent. The same history gives the same decisions in a
// search, a resumed search and a replay.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "engine/breeding/parsed_sources.hpp"
#include "engine/config/config.hpp"
#include "operators/asking_operator.hpp"
#include "operators/bandit.hpp"
#include "operators/portfolio.hpp"
#include "population/archive.hpp"
#include "population/islands.hpp"
#include "population/novelty.hpp"

namespace cultivar {

// A proposal that is no duplicate of an earlier one.
struct NewProposal {
  Proposal proposal;
  ParsedVariant variant;  // an error is a proposal to record as rejected by lint
  std::string stream;     // the name of the random stream it was drawn from
};

// A question to a language model that may become a proposal, or directions for others.
struct Asking {
  Brief brief;
  std::string stream;
};
using Offspring = std::variant<NewProposal, Asking>;

// Whether language models may be asked now, and which: depends on the moment, so the record keeps it.
struct AskingLimits {
  bool questions = false;                       // may another question go out?
  std::set<std::string> closed = {};            // models that are not asked any more
  std::set<std::string> closed_operators = {};  // operators that do not ask any more

  friend bool operator==(const AskingLimits&, const AskingLimits&) = default;
};

// Not thread-safe. Holds no sources and no samples. It has more than 25 functions because each kind of
// decision in the record has a function, which searches, resumed searches and replays call; half of them only
// return a member.
class Breeding {
 public:
  // `sources` outlives it.
  Breeding(const Config&, Facts, ParsedSources& sources);

  // --- Decisions. They change no state. ---

  // The next proposal, or the next question. nullopt: no operator has a new variant while the current ones
  // are in flight.
  std::optional<Offspring> breed(const AskingLimits&);
  // For each arm of the portfolio, the probability that it is used next.
  std::vector<double> shares() const { return bandit_.shares(); }
  const std::vector<Portfolio::Arm>& arms() const { return portfolio_.arms(); }
  // True if proposals may be made: every seed has a verdict and at least one individual was measured.
  bool ready() const { return seeds_in_flight_ == 0 && measured_ > 0; }
  bool seeds_judged() const { return seeds_in_flight_ == 0; }
  // The next challenger, among the individuals that had no duel yet: first the fittest submission that is not
  // clearly slower, then the fittest individual that looks better by half the gate's gain. The fittest seed
  // becomes the first incumbent without a duel.
  std::optional<IndividualId> challenger() const;
  // An earlier individual with the same kernel.
  std::optional<IndividualId> twin_by_variant(const std::string& variant_id) const;
  std::optional<IndividualId> twin_by_machine_code(const std::string& hash) const;

  // --- History, in the order of the record. ---

  // A question was asked; its number is next_asking(). It stays open until it gives an individual or
  // directions, or is given up.
  void ask(const Brief&);
  void give_up(std::int64_t asking, double usd, double device_s = 0.0);
  // A question was answered with directions for operators. It gives no individual; the gain counts for the
  // operator that follows a direction.
  void direct(std::int64_t asking, const Directions&);
  // A proposal; its id is next_id(). `asking`: its question, and the device time that this used; 0: none.
  void admit(const Individual&, std::int64_t asking = 0, double device_s = 0.0);
  // A compiled kernel: later ones with equal machine code are its duplicates.
  void claim_machine_code(IndividualId, const std::string& hash);
  std::vector<Migration> judge(IndividualId, bool measured, double fitness, IndividualId duplicate_of,
                               double device_seconds = 0.0);
  // The incumbent was measured again. Later individuals are measured at this pace, relative to the pace of
  // the first incumbent, to which fitness in the archive is scaled.
  void paced(double pace) { pace_ = pace; }
  double pace() const { return pace_; }
  void compared(IndividualId challenger, bool better);  // by the gate
  void promote(IndividualId);
  void expel(IndividualId);  // wrong at its confirmation
  // Operators discard their state and learn from the archive, as when a search is resumed.
  void rebuild_operators();

  // The individual that won its duel and waits for confirmation; 0: none.
  IndividualId winner() const { return winner_; }
  IndividualId next_id() const { return archive_.size() + 1; }
  std::int64_t next_asking() const { return asked_ + 1; }
  const std::map<std::int64_t, Brief>& open_askings() const { return open_; }
  IndividualId incumbent() const { return incumbent_; }
  IndividualId control() const { return control_; }  // the first incumbent, for ever
  const Archive& archive() const { return archive_; }
  const Islands& islands() const { return islands_; }
  const Task& task() const { return sources_.task(); }
  const std::vector<Workload>& workloads() const { return workloads_; }
  const Facts& facts() const { return facts_; }
  std::int64_t judged() const { return judged_; }

 private:
  bool deserves_a_duel(IndividualId) const;
  bool submitted(IndividualId) const;
  Portfolio make_portfolio() const;

  Config config_;
  ParsedSources& sources_;
  std::function<std::string(const std::string&)> source_of_;  // for operators
  std::vector<Workload> workloads_;
  Facts facts_;
  Archive archive_;
  Islands islands_;
  Novelty novelty_;
  Portfolio portfolio_;
  Bandit bandit_;
  std::vector<Brief> briefs_;           // of all questions
  std::map<std::int64_t, Brief> open_;  // questions that nothing has come of yet
  struct Trial {
    std::uint32_t arm = 0;
    float usd = 0.0F;
    float device_s = 0.0F;  // before it was proposed
  };
  std::vector<Trial> trials_;  // by individual
  std::vector<std::int32_t>
      lessons_;  // what operators learnt from, in order: individuals, or minus an asking
  struct Directed {
    std::size_t after = 0;  // so many lessons
    IndividualId subject = 0;
    Directions given;
  };
  std::vector<Directed> directed_;  // lessons too, in order
  std::set<IndividualId> waiting_;  // may challenge
  IndividualId incumbent_ = 0, control_ = 0, winner_ = 0;
  double pace_ = 1.0;
  std::int64_t seeds_in_flight_ = 0, measured_ = 0, bred_ = 0, judged_ = 0, asked_ = 0;
};

// Two compiled variants are the same kernel if their machine code and launch plans are equal.
std::string kernel_hash(const std::vector<std::string>& machine_code, const Variant&, const Task&,
                        const std::vector<Workload>&, const Facts&);

}  // namespace cultivar
