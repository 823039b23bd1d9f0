// SPDX-License-Identifier: Apache-2.0
// Begins, resumes and replays searches. A search turns a configuration into a record on disk. It prints
// nothing; it emits events and progress.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/search/search_callbacks.hpp"
#include "evaluators/system/error.hpp"
#include "population/individual.hpp"

namespace cultivar {

class Chat;
class Evaluator;

// Where the programs and caches are, and replacements for tests.
struct Runtime {
  std::filesystem::path programs;  // folder of cultivar-worker-*; empty: that of the running program
  std::filesystem::path cache;     // compiled binaries and ceilings; shared by runs
  Installation installation;
  bool trusts_record = false;  // programs that a record names may run: see trust.hpp
  // Seconds of a session after which it begins nothing more, so that several searches can take turns; 0:
  // none. Such a session also ends once nothing is left but to wait for answers in mailboxes.
  double turn_s = 0.0;
  // Ends the turn before its time when it becomes true; nullptr: nothing does. Set in a callback.
  const std::atomic<bool>* turn_ends = nullptr;
  // Each change asks for a checkpoint now, while the search goes on; nullptr: nobody asks. Set in a signal
  // handler.
  const std::atomic<int>* checkpoints_wanted = nullptr;
  // Makes the evaluator; empty: the workers of this machine. Tests supply recorded results.
  std::function<std::unique_ptr<Evaluator>(const Config&, const std::filesystem::path& task_folder)>
      evaluator = nullptr;
  // Wraps the chat service; empty: the service itself is used.
  std::function<std::unique_ptr<Chat>(std::unique_ptr<Chat>)> chat = nullptr;
};

struct Outcome {
  enum class Stop {
    wall,
    evaluations,
    device,   // its hours are used
    plateau,  // none was promoted for too long
    models,
    exhausted,
    turn,     // of the session: more can be done in another one
    letters,  // the same; nothing before answers lie in its mailboxes
    interrupted,
    failed
  } stop = Stop::failed;
  std::string reason;  // for people; with the remedy if it failed
  IndividualId best = 0;
};

std::string_view name_of(Outcome::Stop);
std::string state_after(Outcome::Stop);  // of the record: stopped, failed or finished

// begin_search() and resume_search() hold the run's lock and return after the search has stopped and its
// record is closed. `stop` may be set at any time, also in a signal handler; the search then stops within a
// few seconds, with a checkpoint. An Error means that the search could not begin: the folder is in use or not
// writable, or a service is missing (kind `missing`).
Expected<Outcome> begin_search(const Config&, const std::filesystem::path& run_folder, const Runtime&,
                               const SearchCallbacks&, const std::atomic<bool>& stop);
// Continues exactly where the record ends. `overrides` may raise budgets ("budget.wall=2h") and change
// settings of checkpoints, the gate, notifications, and how it is evaluated (launcher, devices, depth,
// workers); any other key is an InputError. Earlier decisions stay as they were; challengers whose duel
// against the present incumbent was undecided are compared again.
Expected<Outcome> resume_search(const std::filesystem::path& run_folder,
                                const std::vector<std::string>& overrides, const Runtime&,
                                const SearchCallbacks&, const std::atomic<bool>& stop);

// Checks a hand-written variant against the task and puts it into the run's inbox. A running search takes it
// within a second, a stopped one when it is resumed. `parents`: individuals of the run that it was derived
// from. Returns the file in the inbox. A kernel that the run holds is refused; `again`: unless it was
// rejected, and is to be evaluated once more.
Expected<std::filesystem::path> submit_variant(const std::filesystem::path& run_folder,
                                               const std::string& source, const Configuration&,
                                               const std::string& note,
                                               const std::vector<IndividualId>& parents = {},
                                               bool again = false);

// Recomputes every decision from the record and compares it with the recorded one.
struct ReplayReport {
  std::int64_t questions = 0, proposals = 0, judgements = 0, promotions = 0, migrations = 0;
  std::int64_t interventions = 0;        // and their outcomes
  std::vector<std::string> differences;  // empty: the record and its replay agree
};
Expected<ReplayReport> replay(const std::filesystem::path& run_folder, const Runtime&);

}  // namespace cultivar
