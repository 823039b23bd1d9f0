// The engine's end of the talk with language models: which are there, and the calls that are out.
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

// The models that some operator of the configuration asks, and their fallbacks; none is asked yet. An Error
// says what is missing: a key's variable, a recording.
using ChatModels = std::map<std::string, std::unique_ptr<ChatModel>>;
Expected<ChatModels> make_models(const Config&);

// Thread-safe but for ask(), which comes from the pipeline alone.
class ModelDialogues {
 public:
  // The journal outlives it.
  static Expected<std::unique_ptr<ModelDialogues>> open(const Config&, ChatModels, const RunFolder&,
                                                        const RecordWriter&, const Runtime&);

  // Returns at once; `done` is called on the service's thread, exactly once.
  void ask(ChatOrder, std::function<void(ServedResult)> done);
  void cancel() { stop_.request_stop(); }  // all that is out; what is asked later is cancelled at once

  ChatServiceState state() const { return service_->state(); }
  std::vector<std::string>
  news();  // lines for the log since the last time: a model rests, answers again, ...
  // Where the answers of people come from, for the status line: "me (mailbox: /run/mail/requests)".
  const std::string& whereabouts(const std::string& model) const { return whereabouts_.at(model); }

 private:
  ModelDialogues() = default;
  std::map<std::string, std::string> whereabouts_;
  std::mutex mutex_;
  std::vector<std::string> news_;  // guarded
  std::stop_source stop_;
  std::unique_ptr<ExchangeStore> log_;
  std::unique_ptr<Chat> service_;  // last: it writes to the log until it is gone
};

// What `status --json` shows as `models`: for each its state, calls, tokens and dollars, by operator too.
nlohmann::json facts_of(const ChatServiceState&);

}  // namespace cultivar
