// SPDX-License-Identifier: Apache-2.0
// The search loop: the clock, and one step after another. Everything here runs on the thread
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
#include "engine/search/search_end.hpp"
#include "engine/search/search_status.hpp"
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
  using Phase = SearchEnd::Phase;

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
  void supervise();  // records and applies the supervisor's decisions that are due
  bool budget_allows_another() const;
  bool ending() const;  // no budget permits a further evaluation; the last comparisons are bounded
  std::string left_words() const;
  std::int64_t results() const { return breeding_.judged() + questions_.results_received(); }
  bool exhausted() const;  // breed() found nothing, and no result has arrived since
  bool kernels_first();    // before the comparison that is due
  void watch_turn();
  void finish_if_idle();
  void entered(Phase, Outcome::Stop why);  // what a phase means for jobs that wait or run

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

  SearchEnd end_;
  SearchStatus status_;

  bool done_ = false;
  std::optional<std::int64_t> exhausted_at_;  // number of results when breed() found nothing
  std::optional<std::int64_t> asked_out_at_;  // and when it found no question
  std::optional<Clock::time_point> only_letters_since_;
};

}  // namespace cultivar
