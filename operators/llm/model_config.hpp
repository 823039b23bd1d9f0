// SPDX-License-Identifier: Apache-2.0
// One language model of a configuration: `models.NAME`.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operators/llm/chat.hpp"
#include "operators/llm/chat_model.hpp"

namespace cultivar {

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
