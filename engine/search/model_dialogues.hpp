// SPDX-License-Identifier: Apache-2.0
// Connects a search with the chat service: the models it uses and their calls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/store/exchanges.hpp"
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

}  // namespace cultivar
