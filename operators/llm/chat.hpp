// What is said to a language model and what comes back, as values. No provider's protocol shows here: each
// provider translates, and what it cannot say it refuses with `bad_request` instead of leaving it out.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace cultivar {

struct ChatText {
  std::string text;
  bool stable = false;  // the stable prefix may end here: a provider with breakpoints puts one after it
};

struct ToolSpec {
  std::string name, description;
  nlohmann::json parameters;  // JSON Schema of an object
};

struct ToolCall {
  std::string id, name;
  std::string arguments;  // JSON as the model wrote it; it may be wrong
  // nullopt: not a JSON object, and then the model wants to be told so.
  std::optional<nlohmann::json> parsed() const;
};

enum class ChatRole { user, assistant, tool };

struct ChatMessage {
  ChatRole role = ChatRole::user;
  std::string text;
  std::vector<ToolCall> tool_calls = {};  // assistant
  std::string tool_call_id = {};          // tool: which call this is the result of
  bool tool_failed = false;
  bool stable = false;  // as in ChatText
  // assistant: ChatAnswer::carried of the answer that this message repeats.
  nlohmann::json carried = {};
};

enum class Effort { unset, low, medium, high };
enum class ToolChoice { automatic, required, none };

struct ChatRequest {
  // Names the call within its run ("mutate/412/0"), for people, logs and the exchange log. Models never see
  // it.
  std::string call;
  std::vector<ChatText> system;
  std::vector<ChatMessage> messages;
  std::vector<ToolSpec> tools = {};
  ToolChoice tool_choice = ToolChoice::automatic;
  std::int64_t max_output_tokens = 8192;  // reasoning included
  std::optional<double> temperature = {};
  std::vector<std::string> stop = {};
  Effort effort = Effort::unset;
};

// Tokens of one call. `input` leaves out what came from or went to the provider's cache.
struct Usage {
  std::int64_t input = 0, cached = 0, cache_written = 0, output = 0;
  std::int64_t reasoning = 0;  // part of output
  bool estimated = false;      // the provider did not say: from the bytes that were sent and received
  std::int64_t total() const { return input + cached + cache_written + output; }
  Usage& operator+=(const Usage&);
  bool operator==(const Usage&) const = default;
};

enum class StopReason { end, tool_calls, length, stop_sequence };

struct ChatAnswer {
  std::string text;
  std::vector<ToolCall> tool_calls = {};
  StopReason stop = StopReason::end;
  Usage usage = {};
  std::optional<double> usd = {};  // only when the provider itself names a price
  std::string model = {};          // that answered, as it calls itself
  std::string request_id = {};
  // What this provider wants back verbatim in the next turn (signed thoughts, encrypted reasoning); null:
  // nothing.
  nlohmann::json carried = {};
  double first_byte_s = 0.0, seconds = 0.0;
  std::string not_believed = {};  // figures that the provider named, and that are not counted; in words

  ChatMessage as_message() const;  // for the next request of a conversation
};

struct ChatError {
  enum class Kind {
    rate_limited,     // 429: the provider's limits, not the request's fault
    overloaded,       // 5xx, 529, 408, 409
    out_of_credit,    // 402, or a 429 that says that the quota is spent
    unreachable,      // no connection: refused, no such host, TLS, no such program
    timeout_connect,  // not connected in time
    timeout_first_byte,
    timeout_idle,  // the stream stalled
    timeout_total,
    cut_off,         // the connection ended in the middle of an answer
    garbage,         // what came is not an answer
    program_failed,  // a program ended with an error
    bad_request,     // 4xx: it would fail again
    auth,            // the key is missing or refused
    refused,         // the model declines, or a filter does
    too_large,       // request or answer beyond a bound
    cancelled,
    over_budget,   // a cap of this run forbids it
    no_recording,  // replay knows no answer to this request
    gave_up,       // no model was to be had for as long as the call may wait
    not_recorded   // the answer came, but the exchange log could not keep it
  };
  Kind kind = Kind::garbage;
  std::string message;  // what happened and what to do; never holds a key
  int status = 0;       // HTTP; 0: none
  std::optional<double> retry_after_s = {};
  std::string request_id = {};
  Usage usage = {};  // what the failed call has probably cost all the same
};
const char* name_of(ChatError::Kind);
// The same request may succeed a little later.
bool is_passing(ChatError::Kind);

using ChatResult = tl::expected<ChatAnswer, ChatError>;

// Canonical JSON, and back; the exchange log, the mailbox and recordings use it. `call` is left out: the
// same question has the same hash wherever it is asked. from_json throws nlohmann's exceptions.
nlohmann::json to_record(const ChatRequest&);
ChatRequest request_from_record(const nlohmann::json&);
nlohmann::json to_record(const ChatAnswer&);
ChatAnswer answer_from_record(const nlohmann::json&);
nlohmann::json to_record(const Usage&);
Usage usage_from_record(const nlohmann::json&);
std::string hash_of(const ChatRequest&);  // SHA-256 of the canonical JSON, hexadecimal

std::size_t bytes_of(const ChatRequest&);  // of text that a model reads
// About: providers differ. Four bytes a token is usual for English and code.
std::int64_t estimated_tokens(std::size_t bytes);

}  // namespace cultivar
