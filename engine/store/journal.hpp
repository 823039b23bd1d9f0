// Writing a run's record: one process, one thread, one transaction a step.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/run_folder.hpp"
#include "engine/store/record.hpp"
#include "engine/store/run_lock.hpp"
#include "evaluators/error.hpp"
#include "evaluators/evaluation.hpp"
#include "evaluators/profile/profile.hpp"
#include "population/islands.hpp"

namespace SQLite {
class Database;
class Statement;
}  // namespace SQLite

namespace cultivar {

class Journal;
struct ToolOutcome;

// What an evaluation cost of the device, as the record counts it.
double device_seconds(const Evaluation&);

// What can be recorded within one step. Lives as long as the call of Journal::step. Throws SQLite::Exception,
// which step() turns into an Error.
class Step {
 public:
  // `body`: what the decision rests on besides the history (engine/store/askings.hpp).
  void propose(const Individual&, const std::string& source, const std::string& stream,
               const std::string& body = {});
  // A question to a language model: `request` is kept, so that it can be asked to the letter after a kill.
  void ask(const std::string& body, const std::string& stream, const std::string& request_hash,
           const std::string& request);
  // Nothing comes of a question. device_s: what its tools used of the device.
  void give_up(std::int64_t asking, double usd, double device_s, const std::string& reason);
  // What a tool call gave, in that turn of the question's dialogue.
  void tool_result(std::int64_t asking, std::size_t turn, const ToolOutcome&);
  // `individual` carries machine_code, duplicate_of, fitness and workload_values.
  void judge(const Individual&, const Evaluation&);
  // A deadline passed in its evaluation `of` "search" or "confirm", which is to be done once more: kept, and
  // not judged by.
  void put_off(IndividualId, const std::string& of, const Evaluation&);
  void challenge(IndividualId);  // its comparison with the incumbent begins
  void duel(IndividualId challenger, IndividualId incumbent, const std::string& verdict, double alpha,
            const nlohmann::json& report);
  void confirm(IndividualId, const Evaluation&);
  // No decision rests on it: a profile explains, it does not judge.
  void profile(IndividualId, const Profile&);
  // The incumbent's fitness now, and what that is of the fitness that breeding knows it by.
  void pace(IndividualId, double fitness, double pace);
  void promote(IndividualId, double fitness);
  void expel(IndividualId);
  void migrate(const Migration&);
  void session(const std::string& what);  // operators were rebuilt from the record here
  void event(const std::string& kind, IndividualId, const std::string& text);
  void use_exchange(std::int64_t exchange, IndividualId made_of_it);  // in the step that proposes it
  void set(const std::string& key, const std::string& value);         // of meta

 private:
  friend class Journal;
  Step(Journal& journal, double elapsed_s) : journal_(journal), elapsed_s_(elapsed_s) {}
  void decide(const std::string& kind, IndividualId, const std::string& stream, const std::string& body);
  void count(const std::string& what, std::int64_t by = 1);
  void evaluation(IndividualId, const char* kind, const Evaluation&);

  Journal& journal_;
  double elapsed_s_;
};

// Holds the run's lock. Not thread-safe.
class Journal {
 public:
  // Makes the folder if need be; an Error when it already holds a run.
  static Expected<Journal> create(const RunFolder&, const RunFacts&);
  // By who has taken the lock before, to write into the folder as its only owner.
  static Expected<Journal> create(const RunFolder&, const RunFacts&, RunLock);
  // Recovers a damaged database from its checkpoints and salvages what is newer.
  // `damage`: what is known to be wrong with it already.
  static Expected<Journal> open(const RunFolder&, std::string damage = {});
  Journal(Journal&&) noexcept;
  Journal& operator=(Journal&&) noexcept;
  ~Journal();

  const std::string& recovery() const { return recovery_; }  // what open() had to do; empty: nothing
  const Record& record() const { return *record_; }

  // All of `write` or nothing; it is on the disk when this returns. After an Error the record is as it was.
  Expected<void> step(double elapsed_s, const std::function<void(Step&)>& write);

 private:
  friend class Step;
  Journal(RunFolder, RunLock, std::shared_ptr<SQLite::Database>);
  SQLite::Statement& statement(const char* sql);  // prepared once, reset

  RunFolder folder_;
  RunLock lock_;
  std::shared_ptr<SQLite::Database> database_;
  std::unique_ptr<Record> record_;
  std::map<const char*, std::unique_ptr<SQLite::Statement>> statements_;
  std::string recovery_;
};

}  // namespace cultivar
