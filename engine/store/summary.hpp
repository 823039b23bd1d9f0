// SPDX-License-Identifier: Apache-2.0
// What `status` shows of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/record.hpp"

namespace cultivar {

// Evaluations per hour of search time: the one definition for everything that shows it.

// How it is counted, in words.
inline constexpr const char* kRateOver = "from the first to the last of the newest 20, or of 15 min";

// Counts between ends of evaluations: the time before the first one ended, in which compilers start and the
// ceilings of the device are measured, is no part of it, and neither are comparisons after the last one.
class EvaluationRate {
 public:
  void ended(double elapsed_s);  // an evaluation, at this search time; in order
  // Of those that ended in the quarter of an hour before the last one, or of the newest 20 if those are more;
  // of at most 1000. 0: not known yet, since too few have ended to say more than chance.
  double per_hour() const;

 private:
  static constexpr double kWindow = 900.0;  // seconds
  static constexpr std::size_t kLeast = 4, kFewest = 20, kMost = 1000;
  friend EvaluationRate rate_of(const Record&);

  std::deque<double> ends_;
};

EvaluationRate rate_of(const Record&);  // of its evaluations so far; reads the last kMost

struct Best {
  IndividualId id = 0;
  double fitness = 0.0;  // from its duel, if there was one (Standings)
  std::string unit;
  double measured = 0.0;                 // its own measurement, before its duel
  std::optional<double> gain;            // ratio of its duel with the incumbent before it, minus 1
  std::optional<double> ratio_to_seed;   // its speed over that of the first seed that was measured
  bool seed_beside = false;              // that ratio was measured side by side, in its confirmation
  std::map<std::string, double> ratios;  // contender -> geometric mean, interleaved, from its confirmation
  std::optional<double> confirmed;       // its fitness in its confirmation
  std::optional<double> found_at;        // when it was confirmed, in seconds since 1970
};

// The speed of an individual over that of the first seed that was measured. `beside`: from its confirmation,
// which timed both; otherwise by the fitness of the two in the search, which may follow from a chain of
// duels.
struct SeedRatio {
  double ratio = 0.0;
  bool beside = false;
};
// nullopt: it is that seed, or there is none.
std::optional<SeedRatio> ratio_to_seed(const Record&, IndividualId);

// Won its duel, or is the first candidate: becomes the best when it is confirmed.
struct Outstanding {
  IndividualId id = 0;
  double fitness = 0.0;
  std::string unit;
  bool by_duel = false;  // it won one
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
  std::string stop;         // its kind, of the last session: name_of(Outcome::Stop); may be empty
  std::string lost;         // see Record::lost_steps()
  double elapsed_s = 0.0;
  // In seconds since 1970: when its first session began, and when its last one ended (not while it runs).
  std::optional<double> started_at, ended_at;
  double evaluations_per_hour = 0.0;  // kRateOver; 0: not known yet
  std::int64_t evaluations = 0, measured = 0, in_flight = 0, duels = 0, promotions = 0;
  std::int64_t expelled = 0;  // of those that were measured
  std::map<Stage, std::int64_t> rejected;
  std::int64_t submissions_waiting = 0;  // in the inbox
  std::int64_t challengers = 0;          // whose duel with the best is pending, at the last heartbeat
  std::optional<Best> best;
  std::optional<Outstanding> outstanding;
  std::optional<Waiting> waiting;           // of a search that runs
  std::optional<Ending> ending;             // the same
  std::optional<DuelNow> duel;              // the same
  std::string step;                         // the same: what delays the search; may be empty
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
  bool has_device_time() const;  // early versions measured without recording it
};
void to_json(nlohmann::json&, const Summary&);  // the format of `status --json`

// Does not read the individuals: as fast at 100,000 as at 10.
Summary summary_of(const Record&);

// What a search waits for, as of its last heartbeat; no decision depends on it.

// A search without a usable worker.
struct Pause {
  double since = 0.0;     // seconds since 1970
  double next_try = 0.0;  // the same; in the past: it is trying now
  std::string why;        // the last fault
};

struct Momentary {
  // A search that ends when the work in progress is done.
  struct Closing {
    std::string why;
    double until = 0.0;  // at the latest, in seconds since 1970
  };
  std::int64_t challengers = 0;  // whose duel with the best has not ended
  std::optional<Pause> pause;
  std::vector<WorkersOf> workers;
  std::optional<Closing> closing = {};
  std::optional<DuelNow> duel = {};
  std::string step = {};  // what delays the search, as text; may be empty
};
std::string to_body(const Momentary&);
// Sets what `status` shows of it. Empty text: from a version that recorded none.
void set_momentary(Summary&, const std::string& text);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Waiting, for_s, next_try_s, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ending, why, left_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DuelNow, challenger, incumbent, progress)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkersOf, device, workers, measures)

// Duels and confirmations since an individual was last judged.
std::int64_t comparisons_since_judgement(const Record&);

}  // namespace cultivar
