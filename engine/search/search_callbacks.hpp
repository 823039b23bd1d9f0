// SPDX-License-Identifier: Apache-2.0
// The events and the progress that a search reports while it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/summary.hpp"
#include "evaluators/verdict/evaluation.hpp"
#include "population/individual.hpp"

namespace cultivar {

// One line of the log. Kinds: session, warning, submitted, asked, answered, repeated, directed, learned,
// unanswered, suspended, tool, measured, rejected, duel, promoted, refused, profiled, pace, checkpoint,
// worker, model, trouble, stop.
struct Event {
  double elapsed_s = 0.0;
  std::string kind, text;
  IndividualId individual = 0;
};

struct InFlight {
  enum class Doing {
    waiting_for_compiler,
    compiling,
    waiting_for_device,
    evaluating,
    duel,
    confirmation,
    profile
  };

  IndividualId id = 0;
  std::string op;
  Doing doing = Doing::waiting_for_compiler;
  IndividualId incumbent = 0;  // of a duel
  std::string note = {};       // how far its worker is, as text; empty if that is not known
};

// The state of questions to language models.
struct QuestionsOut {
  int open = 0;           // open questions
  int calls = 0;          // in flight at a provider
  std::int64_t sent = 0;  // in all sessions
  double usd = 0.0;       // spent
  std::int64_t tokens = 0;
  int tools = 0;          // running
  std::string waits_for;  // models whose answers are pending, for example "me (mailbox: /path/requests)"
  std::string paused;     // why no calls are sent; empty: not paused
};

// A snapshot of the search, a few times per second.
struct Progress {
  double elapsed_s = 0.0;  // over all sessions
  std::int64_t evaluations = 0, measured = 0;
  std::map<Stage, std::int64_t> rejected;
  std::vector<InFlight> in_flight;
  int jobs = 0;                           // in the pipeline: in_flight, calls to models, and calls of tools
  std::optional<QuestionsOut> questions;  // nullopt: no operator asks a model
  IndividualId best = 0;
  double best_fitness = 0.0;
  std::string unit;
  std::optional<SeedRatio> to_seed;   // of the best; nullopt: it is the first seed, or none is known
  double evaluations_per_hour = 0.0;  // EvaluationRate; 0: not known yet
  double wall_limit_s = 0.0;          // 0: none
  std::int64_t evaluation_limit = 0;  // 0: none
  double device_s = 0.0;              // device time over all sessions
  double device_limit_s = 0.0;        // 0: none
  double promoted_s = 0.0;            // search time of the last promotion; 0: none yet
  std::int64_t challengers = 0;       // whose duel with the best is pending
  // Duels and confirmations since the last evaluation that the budget permits, and their limit; 0: it permits
  // more.
  std::int64_t last_comparisons = 0, most_last_comparisons = 0;
  double seconds_left = 0.0;    // an estimate from both budgets; 0: unknown
  std::string step;             // what delays the search, as text, see WorkInProgress::step; may be empty
  std::string closing;          // why it ends when the work in progress is done; empty if it does not
  double closing_left_s = 0.0;  // until then, at most
  std::vector<WorkersOf> workers = {};  // those that measure first
  std::string waiting;                  // for a usable worker, as text; empty if it does not wait
};

// Called on the thread of the search loop. Must not block and must not throw.
struct SearchCallbacks {
  std::function<void(const Event&)> event;
  std::function<void(const Progress&)> progress;
};

}  // namespace cultivar
