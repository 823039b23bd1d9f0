// A search: from a configuration to a record on disk. The engine prints nothing; it emits events and
// progress.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/config.hpp"
#include "evaluators/error.hpp"
#include "population/individual.hpp"

namespace cultivar {

// Something worth a line in a log. Kinds: session, asked, answered, unanswered, measured, rejected, duel,
// promoted, refused, pace, submitted, checkpoint, worker, model, trouble, stop.
struct Event {
  double elapsed_s = 0.0;
  std::string kind, text;
  IndividualId individual = 0;
};

struct InFlight {
  IndividualId id = 0;
  std::string op, doing;  // waiting, compiling, evaluating, duel, confirm
};

// Language models, as a search asks them.
struct QuestionsOut {
  int open = 0;           // questions that nothing has come of yet
  int calls = 0;          // in flight at a provider
  std::int64_t sent = 0;  // in all sessions
  double usd = 0.0;       // spent
  std::int64_t tokens = 0;
  std::string waits_for;  // "me (mailbox: /path/requests)": of those that are asked now
  std::string paused;     // why no call goes out; empty: not paused
};

// A snapshot, a few times a second.
struct Progress {
  double elapsed_s = 0.0;  // all sessions
  std::int64_t evaluations = 0, measured = 0;
  std::map<std::string, std::int64_t> rejected;  // by stage
  std::vector<InFlight> in_flight;
  std::optional<QuestionsOut> questions;  // when language models are asked
  IndividualId best = 0;
  double best_fitness = 0.0;
  std::string unit;
  double ratio_to_seed = 0.0;         // 0: unknown
  double evaluations_per_hour = 0.0;  // of this session
  double wall_limit_s = 0.0;          // 0: none
  std::int64_t evaluation_limit = 0;  // 0: none
  double seconds_left = 0.0;          // an estimate from both budgets; 0: unknown
  std::string device_stage;           // what the device worker is at, in its own words
};

// Called from the engine's threads, one call at a time; must not block and must not throw.
struct Faces {
  std::function<void(const Event&)> event;
  std::function<void(const Progress&)> progress;
};

// Where the programs and caches are.
class Evaluator;
struct Surface {
  std::filesystem::path programs;  // folder of cultivar-worker-*; empty: beside the running program
  std::filesystem::path cache;     // compiled binaries and ceilings; shared by runs
  Installation installation;
  // What compiles and measures; empty: the workers of this machine. Tests put recorded results here.
  std::function<std::unique_ptr<Evaluator>(const Config&, const std::filesystem::path& task_folder)>
      evaluator = nullptr;
};

struct Outcome {
  enum class Stop { wall, evaluations, models, exhausted, interrupted, failed } stop = Stop::failed;
  std::string reason;  // in words, with the remedy when it failed
  IndividualId best = 0;
};

// Both hold the run's lock while they work and return when the search has stopped and its record is closed.
// `stop` may be set at any time, from a signal handler too: the search then stops within a few seconds, with
// a checkpoint. An Error is trouble before the search could begin: folder in use, unwritable, a service
// missing (stage "missing").
Expected<Outcome> begin_search(const Config&, const std::filesystem::path& run_folder, const Surface&,
                               const Faces&, const std::atomic<bool>& stop);
// Goes on exactly where the record ends. `overrides` may raise the budget ("budget.wall=2h"); anything else
// that would change decisions already taken is an InputError.
Expected<Outcome> resume_search(const std::filesystem::path& run_folder,
                                const std::vector<std::string>& overrides, const Surface&, const Faces&,
                                const std::atomic<bool>& stop);

// Leaves a hand-written variant in the run's inbox. A running search takes it up within a second; a stopped
// one when it is resumed. The source is checked against the task first. `parents`: individuals of the run
// that it was made from. Returns the file that now waits.
Expected<std::filesystem::path> submit_variant(const std::filesystem::path& run_folder,
                                               const std::string& source, const Configuration&,
                                               const std::string& note,
                                               const std::vector<IndividualId>& parents = {});

// Re-makes every decision from the record.
struct ReplayReport {
  std::int64_t questions = 0, proposals = 0, judgements = 0, promotions = 0, migrations = 0;
  std::vector<std::string> differences;  // empty: the record and its replay agree
};
Expected<ReplayReport> replay(const std::filesystem::path& run_folder, const Surface&);

}  // namespace cultivar
