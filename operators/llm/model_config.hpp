// One language model as a configuration describes it: `models.NAME`.
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

// What may be spent at most; nullopt: no limit.
struct Cap {
  std::optional<double> usd;
  std::optional<std::int64_t> tokens;
};

struct RateLimit {  // of the provider, for one minute; 0: none
  double requests = 0.0, input_tokens = 0.0, output_tokens = 0.0;
  int in_flight = 64;  // calls at once
};

struct RetryRule {
  int attempts = 4;           // that one call may burn on one model
  double first_wait_s = 2.0;  // then twice as long each time
  double longest_wait_s = 120.0;
  double patience_s = 6 * 3600.0;  // the longest that a call waits for a model that is down, held or limited
  double fallback_after_s = 20.0;  // a model that is held longer than this is passed over for its fallbacks
  int breaker_failures = 5;        // so many in a row, and the model rests
  double breaker_rest_s = 30.0;    // at first; twice as long after each trial that fails, 10 minutes at most
};

struct ModelConfig {
  std::string name;      // of the configuration
  std::string provider;  // openai, openai_responses, anthropic, command, mailbox, replay
  std::string base_url, model, api_key_env;
  nlohmann::json extra = nlohmann::json::object();  // fields of the request's body, added or replaced
  std::vector<std::string> command;
  std::string answer = "text";         // of a command: text, file, claude_json
  std::string folder, file;            // of a mailbox, of a replay
  bool by_call = false;                // of a replay: answers are found by the call's name
  std::int64_t max_output_tokens = 0;  // the most that this model can be asked for; 0: as requests say
  Effort effort = Effort::unset;       // for requests that leave it open
  std::optional<double> temperature;
  ChatTimeouts timeouts;
  RateLimit limits;
  Cap cap;
  Prices prices;
  std::vector<std::string> fallbacks;  // names, in the order in which they are asked
  RetryRule retry;
};

// The request as this model gets it: defaults filled in, output bounded. What is hashed and recorded is the
// request as it was asked.
ChatRequest fitted(const ModelConfig&, ChatRequest);

// The most that a call can use: as many tokens as its prompt has bytes, times this, and all of the output. A
// token for each two bytes is more than the tokenizers of large models make of code or English; small ones
// make more.
inline constexpr double kMostTokensPerByte = 0.5;
Usage most_of(const ChatRequest&, double tokens_per_byte = kMostTokensPerByte);

}  // namespace cultivar
