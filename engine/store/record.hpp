// Reads a run's record. Any number of processes may read while one writes; nothing here changes the run. A
// query on a damaged database throws SQLite::Exception.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/store/decision_kind.hpp"
#include "evaluators/profile/profile.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/verdict/evaluation.hpp"
#include "evaluators/verdict/gate.hpp"
#include "population/individual.hpp"

namespace SQLite {
class Database;
}

namespace cultivar {

// What was fixed when the run was started.
struct RunFacts {
  std::string name, config_yaml, task_name, target, unit_of_fitness;
  std::string task_folder;     // the run's copy of the task, as it was at the start; rebuilt from task_files
  nlohmann::json task_files;   // {"task.yaml": text, "reference.cpp": text}
  nlohmann::json environment;  // compiler, device, isolation, device facts and ceilings, versions
  std::vector<std::string> workloads;
  double created_at = 0.0;  // seconds since 1970
};

enum class IndividualState { proposed, measured, rejected };

// Which evaluation of an individual: the search's own, or its confirmation.
enum class Examination { search, confirm };
std::string_view name_of(Examination);

struct IndividualRow {
  Individual individual;
  IndividualState state = IndividualState::proposed;
  bool expelled = false;      // measured, but failed confirmation
  std::string stage, reason;  // of its evaluation
  double proposed_at = 0.0, judged_at = 0.0;
  // By paced_lineage() only: the pace when it was measured (Breeding::paced), and its fitness by its duel.
  double pace = 1.0;
  std::optional<double> by_duel = {};
};

// One run of the gate.
struct DuelRow {
  std::int64_t id = 0;
  IndividualId challenger = 0, incumbent = 0;
  Verdict verdict = Verdict::undecided;
  nlohmann::json report;  // decision with bounds, medians by workload, trouble
  double at = 0.0;
};

struct PromotionRow {
  IndividualId individual = 0;
  std::int64_t evaluations = 0;  // number of individuals evaluated by then
  double elapsed_s = 0.0;        // of search time
  double fitness = 0.0;
};

struct EventRow {
  std::int64_t id = 0;
  double at = 0.0;
  std::string kind, text;
  IndividualId individual = 0;
};

struct DecisionRow {
  std::int64_t seq = 0;
  DecisionKind kind = DecisionKind::session;
  IndividualId individual = 0;
  std::string stream, body;
  double elapsed_s = 0.0;
};

struct Best {
  IndividualId id = 0;
  double fitness = 0.0;  // from its duel, if there was one (Standings)
  std::string unit;
  double measured = 0.0;                 // its own measurement, before its duel
  std::optional<double> gain;            // ratio of its duel with the incumbent before it, minus 1
  std::optional<double> ratio_to_seed;   // fitness over that of the first seed that was measured
  std::map<std::string, double> ratios;  // contender -> geometric mean, interleaved, from its confirmation
};

// Won its comparison, or is the first candidate: becomes the best when it is confirmed.
struct Outstanding {
  IndividualId id = 0;
  double fitness = 0.0;
  std::string unit;
};

// For a usable worker.
struct Waiting {
  double for_s = 0.0;
  double next_try_s = 0.0;  // from now on; 0: it is trying
  std::string why;          // the last fault
};

// Of a search that ends when the work in progress is done.
struct Ending {
  std::string why;
  double left_s = 0.0;  // at most, from now on
};

// At the last heartbeat.
struct DuelNow {
  IndividualId challenger = 0, incumbent = 0;
  std::string progress;  // as text; empty if it is not known
};

// The workers that run on one kind of device. A search measures on one kind only, since times on different
// devices cannot be compared; the workers on others wait until their launcher starts them elsewhere.
struct WorkersOf {
  std::string device;  // its description
  int workers = 0;
  bool measures = true;
};

struct BudgetUse {
  double used = 0.0;
  std::optional<double> limit;
};

struct Summary {
  std::string run, task, target;
  std::string state;        // running, waiting for workers (its first), frozen, stopped, finished, failed
  std::string stop_reason;  // empty while running
  std::string lost;         // see Record::lost_steps()
  double elapsed_s = 0.0;
  std::int64_t evaluations = 0, measured = 0, in_flight = 0, duels = 0, promotions = 0;
  std::map<Stage, std::int64_t> rejected;
  std::int64_t submissions_waiting = 0;  // in the inbox
  std::int64_t challengers = 0;          // whose duel with the best is pending, at the last heartbeat
  std::optional<Best> best;
  std::optional<Outstanding> outstanding;
  std::optional<Waiting> waiting;           // of a search that runs
  std::optional<Ending> ending;             // the same
  std::optional<DuelNow> duel;              // the same
  std::map<std::string, BudgetUse> budget;  // wall (seconds), evaluations, device_hours; plateau (seconds
                                            // since a promotion) if limited; usd, tokens where models are
                                            // asked
  nlohmann::json models;      // by name: state, calls in flight, tokens, USD; updated every few seconds
  nlohmann::json questions;   // open, nothing, why_nothing, paused, waits_for, unended (not while running),
                              // shares; null: no model is asked
  nlohmann::json supervisor;  // interventions (their number), current, last; null: none yet
  nlohmann::json plan;        // the newest answer of a planner: question, strategies; null: none
  std::string gate_advice;    // another setting of the gate, while duels stay undecided
  std::string undelivered;    // why a notification of the end was not delivered
  nlohmann::json tools;       // agents' tools by name: calls, failed, device_s
  std::vector<std::string> devices;
  std::vector<WorkersOf> workers;  // of a search that runs: the kind that measures first
  // Of a search that runs: its process, and the seconds since it last recorded anything; it does so every few
  // seconds. Older than kFrozenAfter: its state is frozen.
  std::optional<int> process;
  std::optional<double> heartbeat_age_s;
  static constexpr double kFrozenAfter = 60.0;
  bool alive() const {  // a process holds the run
    return state == "running" || state == "waiting for workers" || state == "frozen";
  }
};
void to_json(nlohmann::json&, const Summary&);  // the format of `status --json`

// It has more than 25 functions because each is one query; nothing else is kept between them.
class Record {
 public:
  // Fails, with a remedy in the message, when the folder holds no run, a newer schema, or a damaged database.
  static Expected<Record> open(const std::filesystem::path& run_folder);
  Record(std::shared_ptr<SQLite::Database>, std::filesystem::path run_folder);
  Record(Record&&) noexcept;
  Record& operator=(Record&&) noexcept;
  ~Record();

  const std::filesystem::path& folder() const { return folder_; }  // of the run
  RunFacts facts() const;
  // Of the program that wrote last, for messages: "cultivar 1.2.0", "an earlier version of cultivar".
  std::string written_by() const;
  // Recorded steps that this database lacks, as text with the remedy; empty if none.
  std::string lost_steps() const;
  Summary summary() const;  // does not read the individuals: as fast at 100,000 as at 10
  std::int64_t count() const;

  std::optional<IndividualRow> individual(IndividualId) const;
  // By number, or by a prefix of a variant id if it is unique.
  std::optional<IndividualId> find(const std::string& text) const;
  std::string source(IndividualId) const;
  std::string source_named(const std::string& source_id) const;
  std::optional<Evaluation> evaluation(IndividualId) const;    // of the search, with raw samples
  std::optional<Evaluation> confirmation(IndividualId) const;  // fresh process, holdout shapes, contenders
  // The newest profile for that workload; empty name: for any workload.
  std::optional<Profile> profile(IndividualId, const std::string& workload = {}) const;

  std::optional<IndividualId> best() const;
  std::optional<IndividualId> outstanding() const;  // the individual whose confirmation is pending
  // Evaluations that exceeded a deadline and are repeated.
  std::set<std::pair<IndividualId, Examination>> put_off() const;
  std::optional<IndividualId> first_seed() const;                 // the first seed that was measured
  std::vector<PromotionRow> promotions() const;                   // in order
  std::vector<DuelRow> duels(IndividualId challenger = 0) const;  // 0: all
  std::vector<IndividualRow> lineage(
      IndividualId) const;  // from the seed along first parents to the individual
  std::vector<IndividualRow> paced_lineage(IndividualId) const;  // the same, with each one's pace
  std::vector<IndividualId> descendants(IndividualId) const;     // direct children
  enum class Order { newest, fittest };
  std::vector<IndividualRow> list(Order, std::int64_t limit, std::int64_t offset = 0) const;
  std::vector<EventRow> events(std::int64_t limit, std::int64_t after = 0) const;

  void each_individual(const std::function<void(const IndividualRow&)>&) const;  // by id
  // By seq, those after `after`. Throws UnknownDecision.
  void each_decision(const std::function<void(const DecisionRow&)>&, std::int64_t after = 0) const;

  SQLite::Database& database() const { return *database_; }

 private:
  std::shared_ptr<SQLite::Database> database_;
  std::filesystem::path folder_;
};

}  // namespace cultivar
