// A search: from a configuration to a record on disk. The engine prints nothing; it emits events and
// progress.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/search/search_callbacks.hpp"
#include "evaluators/system/error.hpp"
#include "population/individual.hpp"

namespace cultivar {

// Where the programs and caches are.
class Chat;
class Evaluator;
struct Runtime {
  std::filesystem::path programs;  // folder of cultivar-worker-*; empty: beside the running program
  std::filesystem::path cache;     // compiled binaries and ceilings; shared by runs
  Installation installation;
  bool trusts_record = false;  // programs that a record names may run: see trust.hpp
  // What compiles and measures; empty: the workers of this machine. Tests put recorded results here.
  std::function<std::unique_ptr<Evaluator>(const Config&, const std::filesystem::path& task_folder)>
      evaluator = nullptr;
  // What questions to models go through, made of the chat service; empty: the service itself.
  std::function<std::unique_ptr<Chat>(std::unique_ptr<Chat>)> chat = nullptr;
};

struct Outcome {
  enum class Stop { wall, evaluations, models, exhausted, interrupted, failed } stop = Stop::failed;
  std::string reason;  // in words, with the remedy when it failed
  IndividualId best = 0;
};

// Both hold the run's lock while they work and return when the search has stopped and its record is closed.
// `stop` may be set at any time, from a signal handler too: the search then stops within a few seconds, with
// a checkpoint. An Error is trouble before the search could begin: folder in use, unwritable, a service
// missing (kind missing).
Expected<Outcome> begin_search(const Config&, const std::filesystem::path& run_folder, const Runtime&,
                               const SearchCallbacks&, const std::atomic<bool>& stop);
// Goes on exactly where the record ends. `overrides` may raise the budget ("budget.wall=2h"); anything else
// that would change decisions already taken is an InputError.
Expected<Outcome> resume_search(const std::filesystem::path& run_folder,
                                const std::vector<std::string>& overrides, const Runtime&,
                                const SearchCallbacks&, const std::atomic<bool>& stop);

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
Expected<ReplayReport> replay(const std::filesystem::path& run_folder, const Runtime&);

}  // namespace cultivar
