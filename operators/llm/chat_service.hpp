// All models of a search behind their policy: limits, retries, fallbacks, holds, circuit breakers, caps, and
// a record that is written before an answer is seen. Operators ask here and nowhere else.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "operators/llm/chat_model.hpp"
#include "operators/llm/exchange_log.hpp"
#include "operators/llm/ledger.hpp"
#include "operators/llm/model_config.hpp"

namespace cultivar {

struct ChatOrder {
  std::string op;       // who asks, for the ledger and its caps
  std::string model;    // the configuration's name; its fallbacks follow
  ChatRequest request;  // request.call must be unique within the run
};

struct ServedAnswer {
  ChatAnswer answer;
  ExchangeId exchange = 0;  // in the log
  std::string model;        // the configuration's name for the one that answered
  double usd = 0.0;
  bool from_record = false;  // answered in an earlier session: nothing was paid now
};
using ServedResult = tl::expected<ServedAnswer, ChatError>;

struct ServedListener {
  std::function<void(const std::string& model, int attempt)> attempt = {};  // deltas begin anew
  std::function<void(const ChatDelta&)> delta = {};
  std::function<void(ServedResult)> done;  // exactly once
};

struct ModelState {
  std::string name;
  enum class Kind { ready, held, resting, trying } kind = Kind::ready;
  std::string reason;  // why it is held or rests
  double for_s = 0.0;  // how much longer
  int in_flight = 0;
};

struct ChatServiceState {
  std::vector<ModelState> models;
  int in_flight = 0, waiting = 0;
  // Every model is held or rests: no call goes out, those that wait keep their attempts, and it goes on by
  // itself. Empty: not paused.
  std::string paused;
  Spent spent;
  double reserved_usd = 0.0;
  std::map<std::pair<std::string, std::string>, Spent> by_operator_and_model;
};

struct ChatServiceOptions {
  std::vector<ModelConfig> models;
  Caps caps;               // by_model is filled in from the models' own caps
  std::uint64_t seed = 1;  // of the jitter
  // Whose values are taken out of all that is recorded, beside those of the models here and of known
  // providers.
  std::vector<std::string> key_variables = {};
  std::function<double()> clock = {};  // seconds, never going back; empty: the steady clock
  std::function<void(const std::string& text)> event = {};  // for the log for people; on the service's thread
};

// Thread-safe. Listeners are called on the service's own thread or, deltas, on the model's; they must not
// block. The destructor cancels everything; every `done` has been called when it returns.
class ChatService {
 public:
  // `models`: by the configuration's name. Throws InputError for a fallback that does not exist; an Error
  // when the log cannot be read. The log must outlive the service, and nobody else may write to it meanwhile.
  static Expected<std::unique_ptr<ChatService>> make(ChatServiceOptions,
                                                     std::map<std::string, std::unique_ptr<ChatModel>> models,
                                                     ExchangeLog&);
  ~ChatService();

  void ask(ChatOrder, std::stop_token, ServedListener);
  ServedResult ask_and_wait(ChatOrder, std::stop_token = {});
  ChatServiceState state() const;

 private:
  struct Core;
  explicit ChatService(std::unique_ptr<Core>);
  std::unique_ptr<Core> core_;
};

}  // namespace cultivar
