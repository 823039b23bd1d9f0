// Reading a run's record. Any number of processes may read while one writes; nothing here changes the run. A
// query on a database that turns out to be damaged throws SQLite::Exception, which says so.
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

#include "evaluators/error.hpp"
#include "evaluators/evaluation.hpp"
#include "evaluators/profile/profile.hpp"
#include "population/individual.hpp"

namespace SQLite {
class Database;
}

namespace cultivar {

// What was fixed when the run began.
struct RunFacts {
  std::string name, config_yaml, task_name, target, unit_of_fitness;
  std::string task_folder;  // the run's own copy of the task, as it was at the start; rebuilt from task_files
  nlohmann::json task_files;   // {"task.yaml": text, "reference.cpp": text}
  nlohmann::json environment;  // compiler, device, isolation, device facts and ceilings, versions
  std::vector<std::string> workloads;
  double created_at = 0.0;  // seconds since 1970
};

enum class IndividualState { proposed, measured, rejected };

struct IndividualRow {
  Individual individual;
  IndividualState state = IndividualState::proposed;
  bool expelled = false;      // measured, but wrong at its confirmation
  std::string stage, reason;  // of its evaluation
  double proposed_at = 0.0, judged_at = 0.0;
  double pace = 1.0;  // at which it was measured (Breeding::paced); told by paced_lineage() alone
};

// One run of the gate.
struct DuelRow {
  std::int64_t id = 0;
  IndividualId challenger = 0, incumbent = 0;
  std::string verdict;    // "better", "worse", "undecided"
  nlohmann::json report;  // decision with bounds, medians by workload, trouble
  double at = 0.0;
};

struct PromotionRow {
  IndividualId individual = 0;
  std::int64_t evaluations = 0;  // how many individuals had been judged by then
  double elapsed_s = 0.0;        // of search time
  double fitness = 0.0;
};

struct EventRow {
  std::int64_t id = 0;
  double at = 0.0;
  std::string kind, text;
  IndividualId individual = 0;
};

// One decision: session, ask, give_up, propose, put_off, judge, migrate, challenge, duel, confirm, pace,
// promote, expel.
struct DecisionRow {
  std::int64_t seq = 0;
  std::string kind;
  IndividualId individual = 0;
  std::string stream, body;
  double elapsed_s = 0.0;
};

struct Best {
  IndividualId id = 0;
  double fitness = 0.0;
  std::string unit;
  std::optional<double> ratio_to_seed;   // fitness over that of the first seed that was measured
  std::map<std::string, double> ratios;  // contender -> geometric mean, interleaved, from its confirmation
};

// Won its comparison, or is to be the first best: it is the best once it is confirmed.
struct Outstanding {
  IndividualId id = 0;
  double fitness = 0.0;
  std::string unit;
};

struct BudgetUse {
  double used = 0.0;
  std::optional<double> limit;
};

struct Summary {
  std::string run, task, target;
  std::string state;        // running, stopped, finished, failed
  std::string stop_reason;  // empty while running
  double elapsed_s = 0.0;
  std::int64_t evaluations = 0, measured = 0, in_flight = 0, duels = 0, promotions = 0;
  std::map<std::string, std::int64_t> rejected;  // by stage
  std::int64_t submissions_waiting = 0;          // in the inbox
  std::optional<Best> best;
  std::optional<Outstanding> outstanding;
  std::map<std::string, BudgetUse> budget;  // wall (seconds), evaluations; usd, tokens where models are asked
  nlohmann::json models;     // by name: state, calls in flight, tokens, USD; as it was seconds ago
  nlohmann::json questions;  // open, in_flight, paused, waits_for, unended (not of a running one), shares;
                             // null: nobody is asked
  nlohmann::json tools;      // of agents, by name: calls, failed, device_s
  std::vector<std::string> devices;
};
void to_json(nlohmann::json&, const Summary&);  // the shape of `status --json`

class Record {
 public:
  // Fails, with what to do, when the folder holds no run, a newer schema, or a damaged database.
  static Expected<Record> open(const std::filesystem::path& run_folder);
  Record(std::shared_ptr<SQLite::Database>, std::filesystem::path run_folder);
  Record(Record&&) noexcept;
  Record& operator=(Record&&) noexcept;
  ~Record();

  const std::filesystem::path& folder() const { return folder_; }  // of the run
  RunFacts facts() const;
  Summary summary() const;  // does not read the individuals: as fast at 100,000 as at 10
  std::int64_t count() const;

  std::optional<IndividualRow> individual(IndividualId) const;
  // By number, or by the beginning of a variant id if only one individual has it.
  std::optional<IndividualId> find(const std::string& text) const;
  std::optional<IndividualId> with_variant(const std::string& variant_id) const;  // the first
  std::string source(IndividualId) const;
  std::string source_named(const std::string& source_id) const;
  std::optional<Evaluation> evaluation(IndividualId) const;    // the search's own, with raw samples
  std::optional<Evaluation> confirmation(IndividualId) const;  // fresh process, holdout shapes, contenders
  // The newest of that workload; empty name: the newest of any.
  std::optional<Profile> profile(IndividualId, const std::string& workload = {}) const;

  std::optional<IndividualId> best() const;
  std::optional<IndividualId> outstanding() const;  // whose confirmation is
  // Evaluations that a deadline ended and that are done once more: whose, and "search" or "confirm".
  std::set<std::pair<IndividualId, std::string>> put_off() const;
  std::optional<IndividualId> first_seed() const;                 // the first seed that was measured
  std::vector<PromotionRow> promotions() const;                   // in order: how the best came to be
  std::vector<DuelRow> duels(IndividualId challenger = 0) const;  // 0: all
  // By what factor it is faster than whom it challenged, less 1, by the last duel that it won. Fitness of
  // another minute, on a warmer card, does not tell that.
  std::optional<double> gain_by_duel(IndividualId challenger) const;
  std::vector<IndividualRow> lineage(IndividualId) const;        // from the seed (first parents) to it
  std::vector<IndividualRow> paced_lineage(IndividualId) const;  // the same, with the pace of each
  std::vector<IndividualId> descendants(IndividualId) const;     // direct children
  enum class Order { newest, fittest };
  std::vector<IndividualRow> list(Order, std::int64_t limit, std::int64_t offset = 0) const;
  std::vector<EventRow> events(std::int64_t limit, std::int64_t after = 0) const;

  void each_individual(const std::function<void(const IndividualRow&)>&) const;  // by id
  void each_decision(const std::function<void(const DecisionRow&)>&) const;      // by seq

  SQLite::Database& database() const { return *database_; }

 private:
  std::shared_ptr<SQLite::Database> database_;
  std::filesystem::path folder_;
};

}  // namespace cultivar
