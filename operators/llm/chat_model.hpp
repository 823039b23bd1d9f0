// SPDX-License-Identifier: Apache-2.0
// The interface to a language model, and the configuration of one (`models.NAME`). Each provider is one file
// pair in this folder and one line in providers.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "operators/llm/chat.hpp"

namespace cultivar {

struct ChatDelta {
  enum class Kind { text, reasoning, tool_arguments } kind = Kind::text;
  std::string_view text;  // valid during the callback
};

struct ChatListener {
  std::function<void(const ChatDelta&)> delta = {};  // optional: called for each part as it arrives
  std::function<void(ChatResult)> done;              // called exactly once, last
};

struct ChatTimeouts {
  double connect_s = 15.0;
  double first_byte_s = 180.0;  // from the start of the call to the first byte of the answer's body
  double idle_s = 90.0;         // the longest silence after it
  double total_s = 1200.0;
};

struct ChatBounds {
  std::size_t request_bytes = std::size_t{16} << 20;
  std::size_t answer_bytes = std::size_t{8} << 20;  // limit for the answer, in bytes received
};

// Thread-safe: any number of calls from any thread. Does not retry: ChatService implements the policy. The
// destructor cancels calls in flight; every `done` has been called when it returns.
class ChatModel {
 public:
  virtual ~ChatModel() = default;
  // Returns immediately. The listener is called on a thread of the model, one call at a time, never from
  // inside ask(); it must not block. After a stop request, `done` soon reports `cancelled`.
  virtual void ask(const ChatRequest&, std::stop_token, ChatListener) = 0;

  // True for models that recognize a request, by its call name and text, after the asking process was killed.
  // Sending it again is the same call: the first call's reservation is released.
  virtual bool knows_again() const { return false; }
  // Whether a usable answer already exists, so that asking costs nothing more.
  virtual bool has_answer(const ChatRequest&) const { return false; }
  // Removes what is left of a request that is not in flight and will not be asked again.
  virtual void withdraw(const ChatRequest&) const {}
};

// One language model of a configuration: `models.NAME`.

// USD per million tokens.
struct Prices {
  double input = 0.0, cached = 0.0, cache_written = 0.0, output = 0.0;
  double usd_of(const Usage& usage) const {
    return 1e-6 * (input * static_cast<double>(usage.input) + cached * static_cast<double>(usage.cached) +
                   cache_written * static_cast<double>(usage.cache_written) +
                   output * static_cast<double>(usage.output));
  }
};

// Limits on spending; nullopt: no limit.
struct Cap {
  std::optional<double> usd;
  std::optional<std::int64_t> tokens;
};

struct RateLimit {  // the provider's limits per minute; 0: none
  double requests = 0.0, input_tokens = 0.0, output_tokens = 0.0;
  int in_flight = 64;  // concurrent calls
};

struct RetryRule {
  int attempts = 4;           // attempts of one call at one model
  double first_wait_s = 2.0;  // doubled each time
  double longest_wait_s = 120.0;
  double patience_s =
      6 * 3600.0;  // longest wait of a call for a model that is unavailable, on hold or limited
  double fallback_after_s = 20.0;  // if a model is on hold longer than this, its fallbacks are used
  int breaker_failures = 5;        // failures in a row that open the circuit breaker
  double breaker_rest_s = 30.0;    // initial pause; doubled after each failed test, up to 10 minutes
};

struct ModelConfig {
  std::string name;      // name in the configuration
  std::string provider;  // openai, openai_responses, anthropic, command, mailbox, replay
  std::string base_url, model, api_key_env;
  // Fields of the request's body to add, replace or (null) leave out; fields to send under other names.
  nlohmann::json extra = nlohmann::json::object();
  std::map<std::string, std::string> rename;
  std::vector<std::string> command;
  std::string answer = "text";         // for command: text, file, claude_json
  std::string folder, file;            // for mailbox and replay
  bool by_call = false;                // for replay: look up answers by the call's name
  std::int64_t max_output_tokens = 0;  // upper limit for requests to this model; 0: none
  Effort effort = Effort::unset;       // for requests that do not set it
  std::optional<double> temperature;
  ChatTimeouts timeouts;
  RateLimit limits;
  Cap cap;
  Prices prices;
  std::vector<std::string> fallbacks;  // names, in the order in which they are tried
  RetryRule retry;
};

// The request as sent to this model: with defaults and a limit on the output. The original request is what is
// hashed and recorded.
ChatRequest fitted(const ModelConfig&, ChatRequest);

// Tokens reserved per byte of the prompt (plus all of the output). Tokenizers of large models produce fewer
// than one token per two bytes of code or English; those of small models may produce more.
inline constexpr double kMostTokensPerByte = 0.5;
Usage most_of(const ChatRequest&, double tokens_per_byte = kMostTokensPerByte);

}  // namespace cultivar
