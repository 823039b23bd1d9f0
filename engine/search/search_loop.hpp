// The search itself: its clock, its budgets, and one step after the other. Everything here happens on the
// thread that calls run().
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

// What a session of a search works with. All references outlive the loop.
struct SessionParts {
  const Config& config;
  const RunFolder& folder;
  RecordWriter& writer;
  Breeding& breeding;  // as the record left it
  ParsedSources& sources;
  Evaluator& evaluator;
  ModelDialogues* dialogues;  // nullptr where no operator asks a language model
  const PromptKit& kit;
  const SearchCallbacks& callbacks;
  const std::atomic<bool>& stop;
  LoadedSources loaded;  // seeds: to begin with, where the record has nobody
};

class SearchLoop {
 public:
  explicit SearchLoop(SessionParts);
  // From now until the search has stopped.
  Outcome run();

 private:
  // running; closing: the wall budget is spent, what has begun may end; leaving: interrupted, nothing counts
  // any more.
  enum class Phase { running, closing, leaving };

  void serve(const JobPtr&);  // nullptr: a tick
  void tick();
  void returned(const JobPtr&);
  void lost(Job&);  // came back, and nothing comes of it
  void handle_failure(const JobPtr&, const Error&);
  void compared(const JobPtr&, const Comparisons::Outcome&);
  void handle_outcome(const Questions::Outcome&);
  void advance();
  bool breed_one();
  bool running() const { return phase_ == Phase::running && !outcome_; }
  bool budget_allows_another() const;
  bool exhausted() const;  // breeding had nothing new, and nothing has happened since
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
  int troubles_ = 0;                          // in a row
  std::optional<std::int64_t> exhausted_at_;  // what had happened by then
  double last_heartbeat_ = 0.0;
};

}  // namespace cultivar
