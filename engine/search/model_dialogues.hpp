// SPDX-License-Identifier: Apache-2.0
// Connects a search with the chat service: the models it uses and their calls; and which of
// them may still be asked.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/breeding/breeding.hpp"
#include "engine/config/config.hpp"
#include "engine/search/recorder.hpp"
#include "engine/store/exchanges.hpp"
#include "operators/asking_operator.hpp"
#include "operators/llm/chat_errors.hpp"
#include "operators/llm/chat_service.hpp"

namespace cultivar {

struct Runtime;

// Makes the models that the configuration's operators ask, and their fallbacks, without a call to any. An
// Error says what is missing: the environment variable of a key, or a recording.
using ChatModels = std::map<std::string, std::unique_ptr<ChatModel>>;
Expected<ChatModels> make_models(const Config&, const RunFolder&);

// The folder of a model that is a mailbox, in a run.
std::string mail_of(const ModelConfig&, const RunFolder&);

// Thread-safe except for ask(), which only the pipeline calls.
class ModelDialogues {
 public:
  // The record writer outlives it.
  static Expected<std::unique_ptr<ModelDialogues>> open(const Config&, ChatModels, const RunFolder&,
                                                        const RecordWriter&, const Runtime&);

  // Returns at once. `done` is called exactly once, on the chat service's thread.
  void ask(ChatOrder, std::function<void(ServedResult)> done);
  void cancel() { stop_.request_stop(); }  // cancels all calls in flight and all later ones

  ChatServiceState state() const { return service_->state(); }
  // Log messages since the previous call, for example that a model is on hold or answers again.
  struct News {
    std::string text;
    bool of_this_machine = false;  // trouble that somebody has to end
  };
  std::vector<News> news();
  // A model and where its answers come from, for the status line: "me (mailbox: /run/mail/requests)".
  const std::string& whereabouts(const std::string& model) const { return whereabouts_.at(model); }
  // Whether its requests wait for somebody to read them, so that one in flight can still be withdrawn.
  bool keeps_letters(const std::string& model) const { return keeps_letters_.contains(model); }

 private:
  ModelDialogues() = default;
  std::map<std::string, std::string> whereabouts_;
  std::set<std::string> keeps_letters_;
  std::mutex mutex_;
  std::vector<News> news_;  // guarded by mutex_
  std::stop_source stop_;
  std::unique_ptr<ExchangeStore> log_;
  std::unique_ptr<Chat> service_;  // last member: it writes to log_ until it is destroyed
};

// The key `models` of `status --json`: state, calls, tokens and USD of each model, in total and by operator.
nlohmann::json facts_of(const ChatServiceState&);

// Which models a search may ask in this session, and which operators may ask. A model or an operator is
// closed when its calls fail repeatedly, when its questions are given up repeatedly, or when its budget is
// exhausted.
// Not thread-safe. Both references outlive it.
class Availability {
 public:
  Availability(Recorder&, const Breeding&);

  void restrict(AskingLimits&) const;  // adds the closed models and operators
  // A call of this model was answered. `nothing`: the answer has no text and calls no tool.
  void answered(const std::string& model, bool nothing = false);
  // Whether so many answers of this model in a row had nothing that another try of a question is not worth
  // its price.
  bool sends_nothing(const std::string& model) const;
  // A question to this model led to a proposal or to directions.
  void question_succeeded(const std::string& model) { fruitless_.erase(model); }
  // It led to a source with values that are those of an earlier individual.
  void question_repeated(const std::string& model, IndividualId twin);
  // Its dialogue ended without a proposal or directions.
  void question_given_up(const std::string& model, const GivenUp&);
  // A call of this question failed, after all its attempts.
  void failed(const Brief&, const ChatError&);

  // Why the run's budget for models allows no more calls; nullopt if it allows some.
  const std::optional<std::string>& cap_spent() const { return cap_spent_; }
  // Why no arm can ask a model anymore; empty if one can.
  std::string why_no_model_left() const;

 private:
  using Closed = std::map<std::string, std::string>;  // name -> reason
  void close(Closed&, const std::string& name, const std::string& why);

  Recorder& recorder_;
  const Breeding& breeding_;
  std::map<std::string, int> failed_calls_;  // consecutive, by model; for recordings, by model/operator
  struct Fruitless {                         // consecutive questions that led to nothing new
    int questions = 0, without_text = 0, repeated = 0;
  };
  std::map<std::string, Fruitless> fruitless_;  // by model
  std::map<std::string, int> nothing_;          // consecutive answers with nothing, by model
  Closed models_, operators_;
  std::optional<std::string> cap_spent_;
};

}  // namespace cultivar
