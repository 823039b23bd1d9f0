// SPDX-License-Identifier: Apache-2.0
// Questions to language models: the open dialogues, their calls to models and tools, and the proposals or
// directions that result.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/search/model_dialogues.hpp"
#include "engine/search/pipeline.hpp"
#include "engine/store/askings.hpp"
#include "engine/store/run_folder.hpp"

namespace cultivar {

// Not thread-safe. All references outlive it.
class Questions {
 public:
  // The dialogues are nullptr if no operator asks a language model; then nothing is asked.
  Questions(const Config&, const RunFolder&, const PromptKit&, ModelDialogues*, Recorder&, Breeding&,
            ParsedSources&, Pipeline&);
  ~Questions();
  // The number of concurrent tool calls.
  static int callers(const Config&, const ModelDialogues*);

  std::optional<AskingLimits> room() const;  // nullopt: no model is ever asked
  void ask(const Asking&, const AskingLimits&);
  // Continues the open questions of earlier sessions: sends the recorded requests again; exchanges and tool
  // results in the record are reused. Only the first call has an effect.
  void reopen();
  void tell_news();  // records the log messages of the chat service
  void cancel();     // cancels all calls in flight; later ones return at once
  // After an evaluation, a promotion or a failed confirmation, and from time to time: withdraws requests that
  // nobody answered yet and whose subject is left behind: it was the best or an ancestor of the best now, it
  // failed its confirmation, or a kernel that was written from it and waits for its duel is much faster.
  void withdraw_superseded();

  struct Outcome {
    IndividualId proposed = 0;              // to be evaluated; 0: none
    std::optional<std::string> fatal = {};  // why the search must stop: an answer could not be recorded
  };
  Outcome answered(Ask&);
  Outcome called(const Job&, Call&);

  int letters_out() const;  // open questions in mailboxes
  int calls_out() const;    // the other open ones, whose answers usually take a minute
  const Availability& availability() const { return availability_; }
  // The number of answers of models and results of tools in this session, including failures.
  std::int64_t results_received() const { return results_received_; }
  void write_state(Step&) const;  // models and questions, for `status`
  void show(Progress&) const;

 private:
  struct Dialogue;
  Dialogue& dialogue_of(std::int64_t question);
  void send(std::int64_t question, ChatRequest);
  IndividualId follow(std::int64_t question);  // does the next move of its dialogue
  void call_tool(std::int64_t question, ToolDue);
  // If the proposal repeats an earlier idea, and this dialogue was not told so yet: adds what that one gave
  // to its last turn, from which its next move follows.
  bool tell_similar_idea(std::int64_t question, const Proposal&);
  AgentToolCalls& tool_calls_of(Dialogue&);
  IndividualId admit(std::int64_t question, const Proposal&);
  void take(std::int64_t question, const Directions&);
  void give_up(std::int64_t question, const GivenUp&);
  void note_state(Dialogue&) const;               // with which superseded() compares
  std::string superseded(const Dialogue&) const;  // why; empty: it is not
  void call_failed(std::int64_t question, const ChatError&);
  std::vector<std::string> waits_for() const;  // the models whose answers are pending

  const Config& config_;
  const RunFolder& folder_;
  const PromptKit& kit_;
  ModelDialogues* models_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;

  Availability availability_;
  std::map<std::int64_t, std::unique_ptr<Dialogue>> dialogues_;  // open ones, by question
  std::stop_source tools_stop_;
  bool reopened_ = false;
  std::int64_t given_up_ = 0;  // questions, in all sessions
  std::string why_given_up_;   // the last of them
  std::int64_t results_received_ = 0;
};

}  // namespace cultivar
