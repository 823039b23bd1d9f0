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

class Chat;
class Evaluator;

// The programs and folders that a search uses.
struct Runtime {
  std::filesystem::path programs;  // folder of cultivar-worker-*; empty: beside the running program
  std::filesystem::path cache;     // compiled binaries and ceilings; shared by runs
  Installation installation;
  // Creates what compiles and measures; empty: the workers of this machine. Tests use simulated results.
  std::function<std::unique_ptr<Evaluator>(const Config&, const std::filesystem::path& task_folder)>
      evaluator = nullptr;
  // Wraps the chat service through which models are asked; empty: the service itself. For tests.
  std::function<std::unique_ptr<Chat>(std::unique_ptr<Chat>)> chat = nullptr;
};

struct Outcome {
  enum class Stop { wall, evaluations, models, exhausted, interrupted, failed } stop = Stop::failed;
  std::string reason;  // in words, with the remedy when it failed
  IndividualId best = 0;
};

// Both hold the run's lock and return when the search has stopped and its record is closed. `stop` may be set
// at any time, also by a signal handler: the search then stops within a few seconds, with a checkpoint.
// Error: the search could not begin because the folder is in use or not writable, or a service is missing
// (kind missing).
Expected<Outcome> begin_search(const Config&, const std::filesystem::path& run_folder, const Runtime&,
                               const SearchCallbacks&, const std::atomic<bool>& stop);
// Continues exactly where the record ends. `overrides` may raise the budget ("budget.wall=2h"); throws
// InputError for overrides that would change earlier decisions.
Expected<Outcome> resume_search(const std::filesystem::path& run_folder,
                                const std::vector<std::string>& overrides, const Runtime&,
                                const SearchCallbacks&, const std::atomic<bool>& stop);

// Puts a hand-written variant into the run's inbox, after checking it against the task. A running search
// takes it within a second, a stopped one when it is resumed. `parents`: the individuals that it was made
// from. Returns the file in the inbox.
Expected<std::filesystem::path> submit_variant(const std::filesystem::path& run_folder,
                                               const std::string& source, const Configuration&,
                                               const std::string& note,
                                               const std::vector<IndividualId>& parents = {});

// Recomputes every decision from the record and compares.
struct ReplayReport {
  std::int64_t questions = 0, proposals = 0, judgements = 0, promotions = 0, migrations = 0;
  std::vector<std::string> differences;  // empty: the record and its replay agree
};
Expected<ReplayReport> replay(const std::filesystem::path& run_folder, const Runtime&);

}  // namespace cultivar
