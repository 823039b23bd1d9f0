// SPDX-License-Identifier: Apache-2.0
// All models of a search with their policy: limits, retries, fallbacks, holds, circuit breakers, caps, and a
// log that stores an answer before it is used. Operators send every call through it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/system/error.hpp"
#include "operators/llm/chat.hpp"
#include "operators/llm/chat_model.hpp"
#include "operators/llm/ledger.hpp"

namespace cultivar {

// The durable log of calls and answers. An answer is stored before it is used, so that after a kill at any
// time no answer that arrived is paid for again. The engine stores it in the run's database.
using ExchangeId = std::int64_t;  // starts at 1

// One attempt at one model.
struct SentRequest {
  std::string op, model;  // model: name in the configuration
  ChatRequest request;    // as it was sent; its `call` is its name within the run
  std::string request_hash;
  int attempt = 1;
  Usage reserved;  // upper bound of the cost; counted if the outcome is never known
  double reserved_usd = 0.0;
  ExchangeId goes_on =
      0;  // not 0: the exchange without recorded outcome that this one continues as the same call
};

// An exchange that was sent, but whose outcome was not recorded because the process was killed.
struct UnendedExchange {
  ExchangeId id = 0;
  Spent counted;  // as counted by spent()
};

struct ArrivedAnswer {
  ExchangeId id = 0;
  std::string op, model;
  ChatAnswer answer;
  double usd = 0.0;
};

// Need not be thread-safe: ChatService calls it from one thread. Each call is one transaction, which is on
// disk when it returns.
class ExchangeLog {
 public:
  virtual ~ExchangeLog() = default;
  // The answer to this call from an earlier session, if the request is identical.
  virtual Expected<std::optional<ArrivedAnswer>> find(const std::string& call,
                                                      const std::string& request_hash) = 0;
  // The exchanges of this call with an identical request to this model; oldest first.
  virtual Expected<std::vector<UnendedExchange>> unended(const std::string& call,
                                                         const std::string& request_hash,
                                                         const std::string& model) = 0;
  virtual Expected<ExchangeId> sent(const SentRequest&) = 0;
  virtual Expected<void> arrived(ExchangeId, const ChatAnswer&, double usd) = 0;
  virtual Expected<void> failed(ExchangeId, const ChatError&, double usd) = 0;
  // Sums of all recorded exchanges, by operator and model. Requests without a recorded outcome, because the
  // process was killed, count with their reservation.
  virtual Expected<std::map<std::pair<std::string, std::string>, Spent>> spent() = 0;
};

struct ChatOrder {
  std::string op;       // the asking operator, for the ledger and its caps
  std::string model;    // name in the configuration; its fallbacks are tried after it
  ChatRequest request;  // request.call must be unique within the run
  // Ends the call as cancelled, for good: a model that keeps requests for later removes this one.
  std::stop_token withdrawn = {};
};

struct ServedAnswer {
  ChatAnswer answer;
  ExchangeId exchange = 0;  // in the log
  std::string model;        // the answering model's name in the configuration
  double usd = 0.0;
  bool from_record = false;  // answered in an earlier session, without new cost
};
using ServedResult = tl::expected<ServedAnswer, ChatError>;

struct ServedListener {
  std::function<void(const std::string& model, int attempt)> attempt =
      {};  // deltas restart with each attempt
  std::function<void(const ChatDelta&)> delta = {};
  std::function<void(ServedResult)> done;  // exactly once
};

struct ModelState {
  std::string name;
  enum class Kind { ready, held, resting, trying } kind = Kind::ready;
  std::string reason;  // why it is on hold or its circuit breaker is open
  double for_s = 0.0;  // remaining time
  int in_flight = 0;
};

struct ChatServiceState {
  std::vector<ModelState> models;
  int in_flight = 0, waiting = 0;
  // Set when every model is on hold or unavailable: no call is sent, waiting calls keep their attempts, and
  // calls resume automatically. Empty: not paused.
  std::string paused;
  Spent spent;
  double reserved_usd = 0.0;
  std::map<std::pair<std::string, std::string>, Spent> by_operator_and_model;
};

struct ChatServiceOptions {
  std::vector<ModelConfig> models;
  Caps caps;               // by_model is set from the models' own caps
  std::uint64_t seed = 1;  // of the jitter
  // Environment variables whose values are removed from everything recorded, in addition to those of these
  // models and of known providers.
  std::vector<std::string> key_variables = {};
  std::function<double()> clock = {};  // monotonic seconds; empty: the steady clock
  // Log messages for people; called on the service's thread. `of_this_machine`: trouble that somebody has to
  // end, such as a full disk.
  std::function<void(const std::string& text, bool of_this_machine)> event = {};
};

// Thread-safe. Listeners are called on the service's thread (deltas on the model's thread) and must not
// block. The destructor cancels everything; every `done` has been called when it returns.
class Chat {
 public:
  virtual ~Chat() = default;
  virtual void ask(ChatOrder, std::stop_token, ServedListener) = 0;
  virtual ChatServiceState state() const = 0;
};

class ChatService : public Chat {
 public:
  // `models`: by name in the configuration. Throws InputError for an unknown fallback; an Error when the log
  // cannot be read. The log must outlive the service, which must be its only writer.
  static Expected<std::unique_ptr<ChatService>> make(ChatServiceOptions,
                                                     std::map<std::string, std::unique_ptr<ChatModel>> models,
                                                     ExchangeLog&);
  ~ChatService() override;

  void ask(ChatOrder, std::stop_token, ServedListener) override;
  ChatServiceState state() const override;

 private:
  struct Core;
  explicit ChatService(std::unique_ptr<Core>);
  std::unique_ptr<Core> core_;
};

}  // namespace cultivar
