// SPDX-License-Identifier: Apache-2.0
// The durable log of calls and answers. An answer is stored before it is used, so that after a kill at any
// time no answer that arrived is paid for again. The engine stores it in the run's database.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/system/error.hpp"
#include "operators/llm/chat.hpp"
#include "operators/llm/ledger.hpp"

namespace cultivar {

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

}  // namespace cultivar
