// The language models of a search and the calls in flight to them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/store/exchanges.hpp"
#include "operators/llm/chat_service.hpp"

namespace cultivar {

struct Runtime;

// Creates the models that the configured operators use, and their fallbacks, without calling them. Error:
// what is missing, such as the environment variable of a key or a recording.
using ChatModels = std::map<std::string, std::unique_ptr<ChatModel>>;
Expected<ChatModels> make_models(const Config&);

// Thread-safe except ask(), which only the pipeline calls.
class ModelDialogues {
 public:
  // The writer outlives it.
  static Expected<std::unique_ptr<ModelDialogues>> open(const Config&, ChatModels, const RunFolder&,
                                                        const RecordWriter&, const Runtime&);

  // Returns at once; `done` is called on the service's thread, exactly once.
  void ask(ChatOrder, std::function<void(ServedResult)> done);
  void cancel() { stop_.request_stop(); }  // all calls in flight; later calls are cancelled immediately

  ChatServiceState state() const { return service_->state(); }
  std::vector<std::string> news();  // new lines for the log: a model is on hold, answers again, ...
  // Where answers come from that people write, for the status line: "me (mailbox: /run/mail/requests)".
  const std::string& answer_source(const std::string& model) const { return answer_sources_.at(model); }

 private:
  ModelDialogues() = default;
  std::map<std::string, std::string> answer_sources_;
  std::mutex mutex_;
  std::vector<std::string> news_;  // guarded
  std::stop_source stop_;
  std::unique_ptr<ExchangeStore> log_;
  std::unique_ptr<Chat> service_;  // last: it writes to the log until it is gone
};

// What `status --json` shows as `models`: for each its state, calls, tokens and dollars, by operator too.
nlohmann::json facts_of(const ChatServiceState&);

}  // namespace cultivar
