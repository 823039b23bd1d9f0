// The search: its clock, its budgets, and the steps, one after the other, on the thread that calls run().
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/search/checkpoints.hpp"
#include "engine/search/comparisons.hpp"
#include "engine/search/evaluations.hpp"
#include "engine/search/profiles.hpp"
#include "engine/search/proposals.hpp"
#include "engine/search/questions.hpp"
#include "engine/search/search.hpp"
#include "engine/store/snapshot.hpp"

namespace cultivar {

// What one session of a search uses. All references outlive the loop.
struct SessionParts {
  const Config& config;
  const RunFolder& folder;
  RecordWriter& writer;
  Breeding& breeding;  // as rebuilt from the record
  ParsedSources& sources;
  Evaluator& evaluator;
  ModelDialogues* dialogues;  // nullptr if no operator uses a language model
  const PromptKit& kit;
  const SearchCallbacks& callbacks;
  const std::atomic<bool>& stop;
  LoadedSources loaded;  // the seeds, for a record without individuals
};

class SearchLoop {
 public:
  explicit SearchLoop(SessionParts);
  // Returns when the search has stopped.
  Outcome run();

 private:
  // closing: the wall-clock budget is exhausted, and comparisons in flight may end; leaving: interrupted, and
  // results are ignored.
  enum class Phase { running, closing, leaving };

  void serve(const JobPtr&);  // nullptr: a tick
  void tick();
  void returned(const JobPtr&);
  void lost(Job&);  // returned without a usable result
  void machine_failed(const JobPtr&, const Error&);
  void compared(const JobPtr&, const Comparisons::Outcome&);
  void replied(const Questions::Outcome&);
  void advance();
  bool breed_one();
  bool running() const { return phase_ == Phase::running && !outcome_; }
  bool budget_allows_another() const;
  bool exhausted() const;  // breeding had no new variant, and nothing has changed since
  void watch_budgets();
  void finish_if_idle();
  void stop(Outcome::Stop, std::string reason);
  void cancel_all();
  void show_progress();

  const SessionParts parts_;
  Breeding& breeding_;
  Recorder recorder_;
  Pipeline pipeline_;
  SecondTries second_tries_;
  Evaluations evaluations_;
  Comparisons comparisons_;
  Profiles profiles_;
  Questions questions_;
  Proposals proposals_;
  Checkpoints checkpoints_;

  Phase phase_ = Phase::running;
  std::optional<Outcome> outcome_;
  bool done_ = false;
  int troubles_ = 0;                          // consecutive
  std::optional<std::int64_t> exhausted_at_;  // judgements and replies at that time
  double last_heartbeat_ = 0.0;
};

}  // namespace cultivar
