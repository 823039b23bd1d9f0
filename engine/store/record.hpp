// SPDX-License-Identifier: Apache-2.0
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
  nlohmann::json task_files;   // {"task.yaml": text, ...}: all that a resume needs
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

// It has more than 20 functions because each is one query; nothing else is kept between them.
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
  // By seq, those after `after`; throws UnknownDecision.
  void each_decision(const std::function<void(const DecisionRow&)>&, std::int64_t after = 0) const;

  SQLite::Database& database() const { return *database_; }

 private:
  std::shared_ptr<SQLite::Database> database_;
  std::filesystem::path folder_;
};

// Resolves the names that people and models use for an individual.

// What shows the names to models.
inline constexpr const char* kToolOfNames = "the tool list_lineage";

// "best", "seed", a number, or a prefix of a variant id. Throws InputError for any other text;
// `lister`: what shows the names.
IndividualId find_individual(const Record&, const std::string& text,
                             const std::string& lister = "`cultivar lineage RUN`");

}  // namespace cultivar
