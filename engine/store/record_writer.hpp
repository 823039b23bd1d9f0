// SPDX-License-Identifier: Apache-2.0
// Writes a run's record: one process, one thread, one transaction per step.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/store/decision_kind.hpp"
#include "engine/store/record.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/store/witness.hpp"
#include "evaluators/profile/profile.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/verdict/evaluation.hpp"
#include "population/individual.hpp"
#include "population/strategy.hpp"

namespace SQLite {
class Database;
class Statement;
}  // namespace SQLite

namespace cultivar {

class RecordWriter;
struct ToolOutcome;
struct Directions;
struct GivenUp;
struct Intervention;
struct InterventionResult;

// The device time of an evaluation, as counted in the record.
double device_seconds(const Evaluation&);
// How far log(fitness) of one measurement may be off, as counted in the record: the distance of the quartiles
// of its times over their median, averaged over the workloads, because a machine's speed drifts between two
// measurements about as much as during one. 0: nothing was measured.
double spread_of(const Evaluation&);
// What breeding depends on; the same as recorded by Step::judge().
Findings findings_of(const Individual&, const Evaluation&, std::map<std::string, double> descriptors);

// Everything that can be recorded within one step. Valid during the call of RecordWriter::step. Throws
// SQLite::Exception, which step() converts to an Error.
class Step {
 public:
  // `body`: what the decision depends on besides the history (engine/store/askings.hpp).
  void propose(const Individual&, const std::string& source, const std::string& stream,
               const std::string& body = {});
  // A question to a language model. `request` is stored so that the same text can be sent after a kill.
  void ask(const std::string& body, const std::string& stream, const std::string& request_hash,
           const std::string& request);
  // A question ends without a proposal. device_s: the device time of its tools.
  void give_up(std::int64_t asking, double usd, double device_s, const GivenUp&);
  // A question was answered with directions for operators.
  void direct(std::int64_t asking, const Directions&);
  // The result of a tool call in that turn of the question's dialogue.
  void tool_result(std::int64_t asking, std::size_t turn, const ToolOutcome&);
  // `individual` carries machine_code, duplicate_of, fitness and workload_values.
  void judge(const Individual&, const Evaluation&, const std::map<std::string, double>& descriptors = {});
  // An evaluation exceeded a deadline and will be repeated: recorded, but without effect on decisions.
  void put_off(IndividualId, Examination, const Evaluation&);
  // The same for an evaluation that met a fault of the host.
  void host_fault(IndividualId, Examination, const Evaluation&);
  void challenge(IndividualId);  // its comparison with the incumbent begins
  // A duel that went on after it was undecided is one comparison, at one alpha; each part has its row.
  struct Course {
    bool went_on = false, may_go_on = false;
    std::optional<DuelResult> result = {};
  };
  void duel(IndividualId challenger, IndividualId incumbent, Verdict, double alpha,
            const nlohmann::json& report, const Course&);
  void confirm(IndividualId, const Evaluation&);
  // Informational: no decision depends on a profile.
  void profile(IndividualId, const Profile&);
  // The incumbent's fitness now, and its ratio to the fitness that Breeding holds for it.
  void pace(IndividualId, double fitness, double pace);
  void promote(IndividualId, double fitness);
  void expel(IndividualId);
  void migrate(const Migration&);
  void intervene(const Intervention&);
  void outcome(const InterventionResult&);
  // Operators were rebuilt from the record at this point, and the gate's settings may have been changed.
  void session(const std::string& what, const std::optional<GateChange>& = {});
  void event(const std::string& kind, IndividualId, const std::string& text);
  void device_time(double seconds);  // of all devices, for the budget
  void use_exchange(std::int64_t exchange,
                    IndividualId made_of_it);  // call in the step that proposes the individual
  void set(const std::string& key, const std::string& value);  // in the table `meta`

 private:
  friend class RecordWriter;
  Step(RecordWriter& writer, double elapsed_s) : writer_(writer), elapsed_s_(elapsed_s) {}
  void decide(DecisionKind, IndividualId, const std::string& stream, const std::string& body);
  void count(const std::string& what, std::int64_t by = 1);
  void evaluation(IndividualId, const char* kind, const Evaluation&);
  void evaluation(IndividualId, const char* kind, const nlohmann::json& body, const std::string& samples);
  template <class... Values>
  void run(const char* sql, const Values&...);

  RecordWriter& writer_;
  double elapsed_s_;
};

// Holds the run's lock. Not thread-safe.
class RecordWriter {
 public:
  // Creates the folder if necessary; an Error when it already holds a run.
  static Expected<RecordWriter> create(const RunFolder&, const RunFacts&);
  // For a caller that took the lock earlier, to write into the folder first.
  static Expected<RecordWriter> create(const RunFolder&, const RunFacts&, RunLock);
  // Recovers a damaged database from its checkpoints and salvages newer data.
  // `damage`: damage that is already known.
  static Expected<RecordWriter> open(const RunFolder&, std::string damage = {});
  RecordWriter(RecordWriter&&) noexcept;
  RecordWriter& operator=(RecordWriter&&) noexcept;
  ~RecordWriter();

  const std::string& recovery() const { return recovery_; }  // what open() recovered; empty if nothing
  const Record& record() const { return *record_; }

  // Commits all of `write` or nothing; the data is on disk on return. After an Error the record is unchanged.
  Expected<void> step(double elapsed_s, const std::function<void(Step&)>& write);
  // The session ended for this reason, which could not be recorded: `status` shows it.
  void end_unrecorded(const std::string& reason) { witness_.write_end(reason); }

 private:
  friend class Step;
  RecordWriter(RunFolder, RunLock, std::shared_ptr<SQLite::Database>);
  SQLite::Statement& statement(const char* sql);  // prepared once, reset

  RunFolder folder_;
  RunLock lock_;
  std::shared_ptr<SQLite::Database> database_;
  std::unique_ptr<Record> record_;
  std::map<const char*, std::unique_ptr<SQLite::Statement>> statements_;
  std::string recovery_;
  Witness witness_;
};

}  // namespace cultivar
