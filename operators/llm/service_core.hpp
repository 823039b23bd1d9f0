// SPDX-License-Identifier: Apache-2.0
// The state of ChatService's thread. Private to this folder.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "operators/llm/call_policy.hpp"
#include "operators/llm/chat_service.hpp"
#include "operators/llm/secret.hpp"

namespace cultivar {

// One model with its limits, circuit breaker and holds.
struct LimitedModel {
  LimitedModel(const ModelConfig& c, std::unique_ptr<ChatModel> m, double now)
      : config(c), model(std::move(m)), limits(c.limits, now), breaker(c.retry) {}
  ModelConfig config;
  std::unique_ptr<ChatModel> model;
  RateLimits limits;
  CircuitBreaker breaker;
  double held_until = 0.0;
  int holds = 0;  // in a row
  std::string reason;
  int in_flight = 0;
  // Raised when the model's answers report more.
  double tokens_per_byte = kMostTokensPerByte;
  std::int64_t beyond_limit = 0;  // tokens of output
  double most_usd = 0.0;          // of a call that cost more than was expected at most
  bool cost_known = false;        // a call has ended
  bool told_of_nothing = false;   // that an answer had no text
  bool blocked = false;           // in this pass: an earlier call is waiting for it
};

struct CallTry {  // the state of one call at one model
  LimitedModel* desk = nullptr;
  ChatRequest fitted;
  Ledger::Reservation reservation;
  Usage expected;  // for the provider's limits
  int failures = 0;
  double not_before = 0.0;
  bool over = false;
  std::vector<UnendedExchange> left_open;  // exchanges of a killed process, if the model recognizes them
};

struct ServedCall {
  ChatOrder order;
  std::string hash;
  ServedListener listener;
  std::stop_source stop;
  std::optional<std::stop_callback<std::function<void()>>> on_stop, on_withdrawal;
  std::vector<CallTry> tries;  // the model and its fallbacks
  int attempts = 0;
  double waits_since = 0.0;
  std::optional<ChatError> last_error;
  // while in flight
  CallTry* flying = nullptr;
  ExchangeId exchange = 0;
};

struct ChatService::Core {
  Core(ChatServiceOptions, std::map<std::string, std::unique_ptr<ChatModel>>, ExchangeLog&);

  double now() const { return options.clock(); }
  void run();
  void accept(std::list<ServedCall>& fresh);
  void conclude(ServedCall& call, ChatResult result);  // the result of one attempt
  void finish(std::list<ServedCall>::iterator, ServedResult);
  std::optional<Error> look_up(ServedCall&, CallTry&);  // finds what a killed process left open
  void drop_left_open(const ServedCall&, CallTry&, ExchangeId but);
  double consider(
      std::list<ServedCall>::iterator);  // starts the call if possible; returns the time to check again
  static void reckon(CallTry&);          // computes the maximum cost
  static void learn_cost(const CallTry&, const Usage& used, double usd);
  bool must_be_first(const ServedCall&, const LimitedModel&) const;  // no other call may be in flight
  void tell_of_nothing(const ServedCall&, const CallTry&, const ChatAnswer&);
  std::optional<double> offer(ServedCall&, CallTry&);  // nullopt: started; otherwise the earliest time
  void begin(ServedCall&, CallTry&);
  void hold(LimitedModel&, const ChatError&);
  void publish();
  void tell(const std::string& text, bool of_this_machine = false) const;

  ChatServiceOptions options;
  ExchangeLog& log;
  Ledger ledger;
  KeyMask mask;
  RandomStream jitter;
  std::string paused_before;

  struct Done {
    ServedCall* call;
    ChatResult result;
  };
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::list<ServedCall> arriving;  // guarded, like all members below
  std::deque<Done> finished;
  bool woken = false, closing = false;
  ChatServiceState shown;
  std::thread thread;

  // Last member, so that the models are destroyed first: until then their threads may still use the members
  // above.
  std::list<ServedCall> calls;
  std::list<LimitedModel> desks;
};

}  // namespace cultivar
