// SPDX-License-Identifier: Apache-2.0
// The search loop: the clock, the budgets, and one step after another. Everything here runs on the thread
// that calls run().
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/search/comparisons.hpp"
#include "engine/search/evaluations.hpp"
#include "engine/search/precedence.hpp"
#include "engine/search/profiles.hpp"
#include "engine/search/proposals.hpp"
#include "engine/search/questions.hpp"
#include "engine/search/recorder.hpp"
#include "engine/search/search.hpp"
#include "engine/store/recorded_run.hpp"

namespace cultivar {

// What a session of a search needs. All references outlive the loop.
struct SessionParts {
  const Config& config;
  const RunFolder& folder;
  RecordWriter& writer;
  Breeding& breeding;  // rebuilt from the record
  ParsedSources& sources;
  Evaluator& evaluator;
  ModelDialogues* dialogues;  // nullptr if no operator asks a language model
  const PromptKit& kit;
  const SearchCallbacks& callbacks;
  const std::atomic<bool>& stop;
  const std::atomic<int>* checkpoints_wanted;  // Runtime::checkpoints_wanted
  double turn_s;                               // Runtime::turn_s
  const std::atomic<bool>* turn_ends;          // Runtime::turn_ends
  LoadedSources loaded;                        // its seeds are used only if the record has no individuals
};

class SearchLoop {
 public:
  explicit SearchLoop(SessionParts);
  // Returns when the search has stopped. Call once.
  Outcome run();

 private:
  // closing: the wall budget is exhausted and started jobs may finish. leaving: the search was interrupted,
  // failed or exceeded its grace period, and the results of returning jobs are ignored.
  enum class Phase { running, closing, leaving };

  void serve(const JobPtr&);  // nullptr: a tick, the periodic work
  void tick();
  void returned(const JobPtr&);
  void lost(Job&);  // the job returned without a usable result
  void handle_failure(const JobPtr&, const Error&);
  void compared(const JobPtr&, const Comparisons::Outcome&);
  void handle_outcome(const Questions::Outcome&);
  void advance();
  void ask_more();  // questions alone, while a comparison keeps the device
  bool breed_one();
  bool breed_one(const std::optional<AskingLimits>&);
  bool asks_models() const { return parts_.dialogues != nullptr; }
  void tell_of_stops();  // of the process, or of its machine
  void supervise();      // records and applies the supervisor's decisions that are due
  bool running() const { return phase_ == Phase::running && !outcome_; }
  bool budget_allows_another() const;
  bool ending() const;  // no budget permits a further evaluation; the last comparisons are bounded
  std::string left_words() const;
  std::string momentary() const;
  std::int64_t results() const { return breeding_.judged() + questions_.results_received(); }
  bool exhausted() const;  // breed() found nothing, and no result has arrived since
  void watch_budgets();
  void watch_turn();
  bool kernels_first();       // before the comparison that is due
  bool turn_is_over() const;  // Runtime::turn_s; false once a budget has ended the search
  void close(Outcome::Stop, std::string reason, double limit_s);  // started jobs may finish
  double grace_left() const;          // of a search that is closing: seconds, below 0 if it is over
  void reopen(IndividualId because);  // takes back the end that a plateau brought
  std::string tried() const;          // what the supervisor has done since the last promotion
  void count_device_time(const Job&);
  void finish_if_idle();
  void stop(Outcome::Stop, std::string reason);
  void leave(Outcome::Stop, std::string reason);  // without what is in flight
  void cancel_all();
  void show_progress();
  std::string starting_words(int starting) const;
  std::string step() const;  // see WorkInProgress; only long ones once a kernel was measured

  const SessionParts parts_;
  Breeding& breeding_;
  Recorder recorder_;
  Pipeline pipeline_;
  SecondTries second_tries_;
  HostFaults faults_;
  Evaluations evaluations_;
  Comparisons comparisons_;
  Profiles profiles_;
  Questions questions_;
  Proposals proposals_;
  Checkpoints checkpoints_;
  Precedence precedence_;

  Phase phase_ = Phase::running;
  std::optional<Outcome> outcome_;
  bool step_failed_ = false;  // breeding_ may have applied what is not recorded
  bool done_ = false;
  std::optional<std::int64_t> exhausted_at_;  // number of results when breed() found nothing
  std::optional<std::int64_t> asked_out_at_;  // and when it found no question
  double last_heartbeat_ = 0.0;
  bool paused_ = false;                             // at the last heartbeat
  Phase shown_phase_ = Phase::running;              // the same
  double closing_s_ = 0.0, closing_limit_s_ = 0.0;  // of the budget that ended the search: when, and its size
  double device_s_ = 0.0, unrecorded_device_s_ = 0.0;  // all, and what the record does not hold yet
  double promoted_s_ = 0.0;                            // the time of the last promotion
  double began_s_ = 0.0;                               // of this session
  std::optional<Clock::time_point> only_letters_since_;
  double stopped_s_ = stopped_s();  // at the last tick
};

}  // namespace cultivar
