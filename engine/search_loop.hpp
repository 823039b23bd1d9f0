// The search itself: everything here happens in the pipeline's steward, one thing at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/agent/agent_desk.hpp"
#include "engine/breeding.hpp"
#include "engine/evaluator.hpp"
#include "engine/pipeline.hpp"
#include "engine/search.hpp"
#include "engine/store/askings.hpp"
#include "engine/store/journal.hpp"
#include "evaluators/statistics/alpha_ledger.hpp"

namespace cultivar {

class SearchLoop {
 public:
  // `breeding` is as the record left it. All references outlive the loop.
  // `correspondence`: nullptr where no operator asks a language model.
  SearchLoop(const Config&, const RunFolder&, Journal&, Breeding&, Evaluator&, Correspondence*,
             const PromptKit&, const Faces&, const std::atomic<bool>& stop);
  // From now until the search has stopped. Seeds are proposed here when the record has nobody.
  Outcome run();

 private:
  using Clock = std::chrono::steady_clock;
  // running; closing: the wall budget is spent, what has begun may end; leaving: interrupted, nothing counts
  // any more.
  enum class Phase { running, closing, leaving };

  int callers() const;
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
  // Past a deadline, for the first time: recorded, and to be done again.
  bool put_off(IndividualId, const std::string& of, const Evaluation&);
  void judged_duel(const JobPtr&);
  void judged_confirmation(const JobPtr&);
  void paced(const JobPtr&);
  void profiled(const JobPtr&);
  void had_trouble(const JobPtr&);
  static Sampling sampling_of(const EvaluationConfig&);
  EvaluateRequest request_for(Compiled) const;  // as far as every evaluation asks alike

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
  void start_pacing();
  bool breed_one();
  std::optional<Variant> variant_of(IndividualId) const;
  std::optional<Evaluation> lint(const Variant&) const;
  void finish_if_idle();
  std::string why_no_seed() const;
  void show_progress();

  // search_asking.cpp: language models.
  struct Dialogue {
    AskedQuestion question;
    std::string stream;
    std::vector<Turn> turns;
    std::vector<ExchangeId> exchanges;
    std::string model;  // that answered last
    double usd = 0.0;
    std::int64_t tokens = 0;
    double device_s = 0.0;                                          // that its tools used
    std::shared_ptr<AgentDesk> desk = {};                           // once a tool was called
    std::map<std::size_t, std::vector<ToolOutcome>> recorded = {};  // by turn, of an earlier session
    std::string doing = {};  // a tool that is at work; empty: a model is
  };
  Room room() const;
  void ask(const Asking&, const Room&);
  void reopen_questions();  // of an earlier session: asked again to the letter, or answered from the record
  void send(std::int64_t asking, ChatRequest);
  void answered(const JobPtr&);
  void follow(std::int64_t asking);  // what its dialogue calls for next
  void call_tool(std::int64_t asking, ToolDue);
  void called_tool(const JobPtr&);
  AgentDesk& desk_of(Dialogue&);
  void admit_answer(std::int64_t asking, const Proposal&);
  void give_up(std::int64_t asking, const std::string& reason);
  void came_to_nothing(std::int64_t asking, const std::string& reason);  // its answers could not be used
  void call_failed(std::int64_t asking, const ChatError&);
  void close(std::map<std::string, std::string>& who, const std::string& name, const std::string& why);
  void record_models(Step&) const;
  std::string nobody_to_ask() const;  // why no model can be asked any more; empty: one can
  void show_questions(Progress&) const;
  void introduce(Individual&, const Proposal&, const tl::expected<Variant, ManifestError>&) const;

  const Config& config_;
  const RunFolder& folder_;
  Journal& journal_;
  Breeding& breeding_;
  Evaluator& evaluator_;
  Correspondence* correspondence_;
  const PromptKit& kit_;
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
  bool pacing_ = false;            // the incumbent is, to be measured once more
  bool unpaced_ = false;           // gone on with, and that was not done yet
  double pace_due_ = 0.0;          // when that is due, in elapsed()
  double pace_gap_s_ = 0.0;        // and for how long it will do
  JobPtr doubted_;                 // what was measured so, and is measured again before it counts
  IndividualId to_profile_ = 0;    // promoted, and not profiled yet; only the newest counts
  std::string no_profiles_;        // why there are none, once that is known
  int troubles_ = 0;               // in a row
  bool exhausted_ = false;         // breeding had nothing new at the last try
  std::map<std::int64_t, Dialogue> dialogues_;  // questions that are out, by number
  int calls_out_ = 0;                           // of them, in the pipeline: models and tools
  std::stop_source tools_stop_;
  bool reopened_ = false;
  std::int64_t given_up_ = 0;                         // questions that came to nothing, in all sessions
  std::map<std::string, int> failed_calls_;           // in a row, by model; of recordings by model/operator
  std::map<std::string, int> fruitless_;              // questions in a row without a kernel, by model
  std::map<std::string, std::string> closed_models_;  // asked no more, and why
  std::map<std::string, std::string> closed_operators_;  // ask no more, and why
  std::string cap_spent_;                                // of the run's budget for models, in words
  std::vector<Event> untold_;                            // recorded in the step that is being written
  std::vector<Variant> contenders_;
  std::vector<Compiled> libraries_;  // contenders too
  std::vector<Workload> holdout_;
  std::map<std::string, double, std::less<>> incumbent_us_;
  AlphaLedger ledger_;
  double alpha_ = 0.0;  // of the comparison going on
  double elapsed_before_ = 0.0, last_checkpoint_ = 0.0, last_inbox_ = -1.0, last_heartbeat_ = 0.0;
  std::int64_t judged_before_ = 0, measured_ = 0;
  std::map<std::string, std::int64_t> rejected_;
  std::set<std::pair<IndividualId, std::string>> put_off_;  // in all sessions: whose evaluation, and which
  std::map<IndividualId, std::string> ops_;                 // of those in flight, for the progress line
  std::string unit_;
  IndividualId first_seed_ = 0;  // of those that were measured
  double first_seed_fitness_ = 0.0;
  Clock::time_point began_ = Clock::now();
  std::future<Expected<std::filesystem::path>> checkpoint_;
  std::unique_ptr<Pipeline> pipeline_;  // last: its threads end before the rest goes
};

}  // namespace cultivar
