// The durable record of what was asked and answered. An answer is in it before anybody sees it: after a kill
// at any instant no answer that arrived is paid again. The engine keeps it in the run's database.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/error.hpp"
#include "operators/llm/chat.hpp"
#include "operators/llm/ledger.hpp"

namespace cultivar {

using ExchangeId = std::int64_t;  // from 1 on

// One attempt at one model.
struct SentRequest {
  std::string op, model;  // model: the configuration's name
  ChatRequest request;    // as it was asked; its `call` names it within the run
  std::string request_hash;
  int attempt = 1;
  Usage reserved;  // the most that it can cost; what it counts for if its end is never known
  double reserved_usd = 0.0;
  ExchangeId goes_on = 0;  // not 0: this one, whose end was never recorded, is asked again and is the same
};

// One that was sent, and whose end was never recorded because the process was killed.
struct UnendedExchange {
  ExchangeId id = 0;
  Spent counted;  // as spent() counts it
};

struct ArrivedAnswer {
  ExchangeId id = 0;
  std::string op, model;
  ChatAnswer answer;
  double usd = 0.0;
};

// Thread-safe is not asked for: ChatService calls it from one thread. Each call is one transaction, on the
// disk when it returns.
class ExchangeLog {
 public:
  virtual ~ExchangeLog() = default;
  // The answer that this call was given in an earlier session, if the request is the same to the letter.
  virtual Expected<std::optional<ArrivedAnswer>> find(const std::string& call,
                                                      const std::string& request_hash) = 0;
  // Of this call, to the letter, at this model; oldest first.
  virtual Expected<std::vector<UnendedExchange>> unended(const std::string& call,
                                                         const std::string& request_hash,
                                                         const std::string& model) = 0;
  virtual Expected<ExchangeId> sent(const SentRequest&) = 0;
  virtual Expected<void> arrived(ExchangeId, const ChatAnswer&, double usd) = 0;
  virtual Expected<void> failed(ExchangeId, const ChatError&, double usd) = 0;
  // Sums of all that is recorded, by operator and model. Requests whose end was never recorded, because the
  // process was killed, count with what they had reserved.
  virtual Expected<std::map<std::pair<std::string, std::string>, Spent>> spent() = 0;
};

}  // namespace cultivar
