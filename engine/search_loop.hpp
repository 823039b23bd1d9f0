// The search itself: everything here happens in the pipeline's steward, one thing at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/breeding.hpp"
#include "engine/evaluator.hpp"
#include "engine/pipeline.hpp"
#include "engine/search.hpp"
#include "engine/store/journal.hpp"
#include "evaluators/statistics/alpha_ledger.hpp"

namespace cultivar {

class SearchLoop {
 public:
  // `breeding` is as the record left it. All references outlive the loop.
  SearchLoop(const Config&, const RunFolder&, Journal&, Breeding&, Evaluator&, const Faces&,
             const std::atomic<bool>& stop);
  // From now until the search has stopped. Seeds are proposed here when the record has nobody.
  Outcome run();

 private:
  using Clock = std::chrono::steady_clock;
  // running; closing: the wall budget is spent, what has begun may end; leaving: interrupted, nothing counts
  // any more.
  enum class Phase { running, closing, leaving };

  void steward(const JobPtr&);
  void came_back(const JobPtr&);
  void leave(const Job&);  // it is in the pipeline no more
  void record(const std::function<void(Step&)>&);
  void tell(Step&, const std::string& kind, IndividualId,
            std::string text);  // recorded now, shown when it is
  void stop(Outcome::Stop, std::string reason);
  double elapsed() const;

  // search_results.cpp: what comes back.
  void compiled(const JobPtr&);
  void judge(IndividualId, const Evaluation&, const std::string& machine_code, IndividualId duplicate_of);
  void judged_duel(const JobPtr&);
  void judged_confirmation(const JobPtr&);
  void profiled(const JobPtr&);
  void had_trouble(const JobPtr&);
  static Sampling sampling_of(const EvaluationConfig&);

  // search_work.cpp: what goes out.
  void propose_seeds();
  void advance();
  void watch_budgets();
  void take_submissions();
  void take_checkpoint(bool last);
  bool budget_allows_another() const;
  void dispatch(IndividualId, const Variant&);
  void reevaluate(IndividualId);
  void start_comparison();
  JobPtr comparison_job(Job::Kind, IndividualId) const;
  void start_profile();
  bool breed_one();
  std::optional<Variant> variant_of(IndividualId) const;
  std::optional<Evaluation> lint(const Variant&) const;
  void finish_if_idle();
  void show_progress();

  const Config& config_;
  const RunFolder& folder_;
  Journal& journal_;
  Breeding& breeding_;
  Evaluator& evaluator_;
  const Faces& faces_;
  const std::atomic<bool>& stop_;

  Phase phase_ = Phase::running;
  std::optional<Outcome> outcome_;
  std::atomic<bool> done_{false};
  std::atomic<bool> tick_pending_{false};
  std::deque<IndividualId> owed_;  // recorded, to be evaluated: seeds, submissions, what a kill interrupted
  int evaluating_ = 0;             // jobs of kind evaluate in the pipeline
  bool comparing_ = false;         // a duel or a confirmation is in the pipeline
  bool profiling_ = false;         // a profile is
  IndividualId to_profile_ = 0;    // promoted, and not profiled yet; only the newest counts
  std::string no_profiles_;        // why there are none, once that is known
  int troubles_ = 0;               // in a row
  bool exhausted_ = false;         // breeding had nothing new at the last try
  std::vector<Event> untold_;      // recorded in the step that is being written
  std::vector<Variant> contenders_;
  std::vector<Compiled> libraries_;  // contenders too
  std::vector<Workload> holdout_;
  std::map<std::string, double, std::less<>> incumbent_us_;
  AlphaLedger ledger_;
  double alpha_ = 0.0;  // of the comparison going on
  double elapsed_before_ = 0.0, last_checkpoint_ = 0.0, last_inbox_ = -1.0, last_heartbeat_ = 0.0;
  std::int64_t judged_before_ = 0, measured_ = 0;
  std::map<std::string, std::int64_t> rejected_;
  std::map<IndividualId, std::string> ops_;  // of those in flight, for the progress line
  std::string unit_;
  IndividualId first_seed_ = 0;  // of those that were measured
  double first_seed_fitness_ = 0.0;
  Clock::time_point began_ = Clock::now();
  std::future<Expected<std::filesystem::path>> checkpoint_;
  std::unique_ptr<Pipeline> pipeline_;  // last: its threads end before the rest goes
};

}  // namespace cultivar
