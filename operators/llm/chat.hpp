// SPDX-License-Identifier: Apache-2.0
// Requests to language models and their answers, as values, independent of a provider's protocol. Each
// provider translates them, and refuses what its protocol cannot express with `bad_request` instead of
// omitting it.
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
  bool stable = false;  // a stable prefix may end here: a provider with cache breakpoints puts one after it
};

struct ToolSpec {
  std::string name, description;
  nlohmann::json parameters;  // JSON Schema of an object
};

struct ToolCall {
  std::string id, name;
  std::string arguments;  // JSON as the model wrote it; may be invalid
  // nullopt: not a JSON object; then the model must be told so.
  std::optional<nlohmann::json> parsed() const;
};

enum class ChatRole { user, assistant, tool };

struct ChatMessage {
  ChatRole role = ChatRole::user;
  std::string text;
  std::vector<ToolCall> tool_calls = {};  // assistant
  std::string tool_call_id = {};          // tool: the call that this is the result of
  bool tool_failed = false;
  bool stable = false;  // as in ChatText
  // assistant: ChatAnswer::carried of the answer in this message.
  nlohmann::json carried = {};
};

enum class Effort { unset, low, medium, high };
const char* name_of(Effort);  // empty: unset
enum class ToolChoice { automatic, required, none };

struct ChatRequest {
  // The name of the call within its run ("mutate/412/0"), for people and for the exchange log. Not sent to
  // models.
  std::string call;
  std::vector<ChatText> system;
  std::vector<ChatMessage> messages;
  std::vector<ToolSpec> tools = {};
  ToolChoice tool_choice = ToolChoice::automatic;
  std::int64_t max_output_tokens = 8192;  // including reasoning
  std::optional<double> temperature = {};
  std::vector<std::string> stop = {};
  Effort effort = Effort::unset;
};

// Tokens of one call. `input` excludes tokens read from or written to the provider's cache.
struct Usage {
  std::int64_t input = 0, cached = 0, cache_written = 0, output = 0;
  std::int64_t reasoning = 0;  // part of output
  bool estimated = false;      // not reported by the provider: estimated from the bytes sent and received
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
  std::optional<double> usd = {};  // only if the provider reports a price
  std::string model = {};          // the answering model's own name
  std::string request_id = {};
  // What must be sent back verbatim to this provider in the next turn (signed thinking, encrypted reasoning);
  // null if nothing.
  nlohmann::json carried = {};
  double first_byte_s = 0.0, seconds = 0.0;
  std::string not_believed = {};     // reported numbers that are implausible and not counted, as text
  bool from_reasoning = false;       // `text` came as reasoning, because nothing came as text
  std::int64_t reasoning_bytes = 0;  // of an answer without text: received as reasoning

  ChatMessage as_message() const;  // as a message for the next request of a conversation
};

// Whose cap forbids a call.
enum class CapScope { run, op, model };

// A cap forbids a call.
struct Refusal {
  CapScope scope = CapScope::run;
  std::string words;        // for people only
  bool even_alone = false;  // also when nothing else is in flight: waiting does not help
};

struct ChatError {
  enum class Kind {
    rate_limited,     // 429: a limit of the provider; the request is valid
    overloaded,       // 5xx, 529, 408, 409
    out_of_credit,    // 402, or a 429 that reports an exhausted quota
    unreachable,      // no connection: refused, no such host, TLS, no such program
    unwritable,       // a full or failing disk: the request could not be written to a mailbox
    timeout_connect,  // not connected in time
    timeout_first_byte,
    timeout_idle,  // the stream stalled
    timeout_total,
    cut_off,         // the connection ended in the middle of an answer
    garbage,         // the response is not a valid answer
    program_failed,  // a program ended with an error
    bad_request,     // 4xx: a retry would fail too
    auth,            // the key is missing or rejected
    refused,         // refused by the model or by a filter
    too_large,       // the request or the answer exceeds a limit
    cancelled,
    over_budget,   // a cap of this run does not allow it
    no_recording,  // replay has no answer to this request
    gave_up,       // timed out: no model became available
    not_recorded   // the answer arrived, but could not be stored in the exchange log
  };
  Kind kind = Kind::garbage;
  std::string message;  // what happened and the remedy; never contains a key
  int status = 0;       // HTTP; 0: none
  std::optional<double> retry_after_s = {};
  std::string request_id = {};
  Usage usage = {};                  // what the failed call probably cost
  std::optional<double> usd = {};    // only if the provider or program reports a price
  bool before_work = false;          // reported by the provider before any output: costs nothing
  std::optional<CapScope> cap = {};  // of over_budget: whose
};
tl::unexpected<ChatError> chat_failure(ChatError::Kind, std::string message);
const char* name_of(ChatError::Kind);
// Whether the same request may succeed later.
bool is_passing(ChatError::Kind);

using ChatResult = tl::expected<ChatAnswer, ChatError>;

// To canonical JSON and back, for the exchange log, the mailbox and recordings. `call` is omitted, so that
// equal questions have equal hashes. from_json throws nlohmann's exceptions.
nlohmann::json to_record(const ChatRequest&);
ChatRequest request_from_record(const nlohmann::json&);
nlohmann::json to_record(const ChatAnswer&);
ChatAnswer answer_from_record(const nlohmann::json&);
nlohmann::json to_record(const Usage&);
std::string hash_of(const ChatRequest&);  // SHA-256 of the canonical JSON, hexadecimal

std::size_t bytes_of(const ChatRequest&);  // bytes of the text that the model reads
// An estimate, since providers differ: four bytes per token is typical for English and code.
std::int64_t estimated_tokens(std::size_t bytes);

}  // namespace cultivar
