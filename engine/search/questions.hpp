// Questions to language models: the dialogues that are open, the calls that are out for them, and what comes
// of their answers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/search/availability.hpp"
#include "engine/search/pipeline.hpp"
#include "engine/store/askings.hpp"
#include "engine/store/run_folder.hpp"

namespace cultivar {

// Not thread-safe. All references outlive it.
class Questions {
 public:
  // `correspondence`: nullptr where no operator asks a language model; nothing is then asked.
  Questions(const Config&, const RunFolder&, const PromptKit&, ModelDialogues*, Recorder&, Breeding&,
            ParsedSources&, Pipeline&);
  ~Questions();
  // How many calls of tools may go on at a time.
  static int callers(const Config&, const ModelDialogues*);

  std::optional<AskingLimits> room() const;  // nullopt: nobody is asked
  void ask(const Asking&, const AskingLimits&);
  void reopen();  // once: those of an earlier session, asked again to the letter or answered from the record
  void tell_news();
  void cancel();  // all that is out; what is asked later comes back at once

  struct Outcome {
    IndividualId proposed = 0;              // to be evaluated; 0: nobody
    std::optional<std::string> fatal = {};  // why the search cannot go on: an answer could not be recorded
  };
  Outcome answered(Ask&);
  Outcome called(const Job&, Call&);

  const Availability& availability() const { return availability_; }
  std::int64_t results_received() const {
    return results_received_;
  }                               // answers and results of tools, failures too
  void write_state(Step&) const;  // what `status` shows of models and questions
  void show(Progress&) const;

 private:
  struct Dialogue;
  Dialogue& dialogue_of(std::int64_t question);
  void send(std::int64_t question, ChatRequest);
  IndividualId follow(std::int64_t question);  // what its dialogue calls for next
  void call_tool(std::int64_t question, ToolDue);
  AgentToolCalls& tool_calls_of(Dialogue&);
  IndividualId admit(std::int64_t question, const Proposal&);
  void take(std::int64_t question, const Directions&);
  void give_up(std::int64_t question, const std::string& reason);
  void call_failed(std::int64_t question, const ChatError&);
  std::vector<std::string> waits_for() const;  // whose answers

  const Config& config_;
  const RunFolder& folder_;
  const PromptKit& kit_;
  ModelDialogues* models_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;

  Availability availability_;
  std::map<std::int64_t, std::unique_ptr<Dialogue>> dialogues_;  // that are open, by question
  std::stop_source tools_stop_;
  bool reopened_ = false;
  std::int64_t given_up_ = 0;  // questions that came to nothing, in all sessions
  std::int64_t results_received_ = 0;
};

}  // namespace cultivar
