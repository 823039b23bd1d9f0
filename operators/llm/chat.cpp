// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/chat.hpp"

#include "evaluators/system/hash.hpp"
#include "evaluators/system/json_fields.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/variant/variant.hpp"
#include "operators/llm/ledger.hpp"

namespace cultivar {

using nlohmann::json;

CULTIVAR_JSON_ENUM(ChatRole, "user", "assistant", "tool")
CULTIVAR_JSON_ENUM(Effort, "", "low", "medium", "high")
CULTIVAR_JSON_ENUM(ToolChoice, "automatic", "required", "none")
CULTIVAR_JSON_ENUM(StopReason, "end", "tool_calls", "length", "stop_sequence")
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ChatText, text, stable)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ToolSpec, name, description, parameters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ToolCall, id, name, arguments)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Usage, input, cached, cache_written, output, reasoning, estimated)

namespace {

// What is as it is without a word is left out: the hash of a request is that of its canonical JSON.
template <class T>
void write_if(json& record, const char* key, const T& value, bool said) {
  if (said) record[key] = value;
}
template <class T>
void read_if(const json& record, const char* key, T& value) {
  if (const auto found = record.find(key); found != record.end()) found->get_to(value);
}

}  // namespace

CULTIVAR_JSON_PART(ChatMessage, role, text)

static void to_json(json& record, const ChatMessage& m) {
  write_fields(record, m);
  write_if(record, "tool_calls", m.tool_calls, !m.tool_calls.empty());
  write_if(record, "tool_call_id", m.tool_call_id, !m.tool_call_id.empty());
  write_if(record, "tool_failed", true, m.tool_failed);
  write_if(record, "stable", true, m.stable);
  write_if(record, "carried", m.carried, !m.carried.is_null());
}

static void from_json(const json& record, ChatMessage& m) {
  read_fields(record, m);
  read_if(record, "tool_calls", m.tool_calls);
  read_if(record, "tool_call_id", m.tool_call_id);
  read_if(record, "tool_failed", m.tool_failed);
  read_if(record, "stable", m.stable);
  read_if(record, "carried", m.carried);
}

CULTIVAR_JSON_PART(ChatRequest, system, messages, max_output_tokens)
CULTIVAR_JSON_PART(ChatAnswer, text, stop, usage, model, request_id, first_byte_s, seconds)

std::optional<json> ToolCall::parsed() const {
  // Many providers send an empty text for a call without arguments.
  if (arguments.empty()) return json::object();
  json value = foreign_json(arguments);
  if (!value.is_object()) return std::nullopt;
  return value;
}

Usage& Usage::operator+=(const Usage& other) {
  input = saturated_sum(input, other.input);
  cached = saturated_sum(cached, other.cached);
  cache_written = saturated_sum(cache_written, other.cache_written);
  output = saturated_sum(output, other.output);
  reasoning = saturated_sum(reasoning, other.reasoning);
  estimated = estimated || other.estimated;
  return *this;
}

ChatMessage ChatAnswer::as_message() const {
  ChatMessage message;
  message.role = ChatRole::assistant;
  message.text = text;
  message.tool_calls = tool_calls;
  message.carried = carried;
  return message;
}

tl::unexpected<ChatError> chat_failure(ChatError::Kind kind, std::string message) {
  return tl::make_unexpected(ChatError{.kind = kind, .message = std::move(message)});
}

const char* name_of(Effort effort) {
  return std::array{"", "low", "medium", "high"}[static_cast<std::size_t>(effort)];
}

const char* name_of(ChatError::Kind kind) {
  static constexpr std::array names{
      "rate_limited",       "overloaded",   "out_of_credit", "unreachable", "unwritable", "timeout_connect",
      "timeout_first_byte", "timeout_idle", "timeout_total", "cut_off",     "garbage",    "program_failed",
      "bad_request",        "auth",         "refused",       "too_large",   "cancelled",  "over_budget",
      "no_recording",       "gave_up",      "not_recorded"};
  return names[static_cast<std::size_t>(kind)];
}

bool is_passing(ChatError::Kind kind) {
  return kind <= ChatError::Kind::program_failed;
}

json to_record(const Usage& usage) {
  return usage;
}

json to_record(const ChatRequest& request) {
  json record;
  write_fields(record, request);
  write_if(record, "tools", request.tools, !request.tools.empty());
  write_if(record, "tool_choice", request.tool_choice, !request.tools.empty());
  write_if(record, "temperature", request.temperature, request.temperature.has_value());
  write_if(record, "stop", request.stop, !request.stop.empty());
  write_if(record, "effort", request.effort, request.effort != Effort::unset);
  return record;
}

ChatRequest request_from_record(const json& record) {
  ChatRequest request;
  read_fields(record, request);
  read_if(record, "tools", request.tools);
  read_if(record, "tool_choice", request.tool_choice);
  read_if(record, "temperature", request.temperature);
  read_if(record, "stop", request.stop);
  read_if(record, "effort", request.effort);
  return request;
}

json to_record(const ChatAnswer& answer) {
  json record;
  write_fields(record, answer);
  write_if(record, "tool_calls", answer.tool_calls, !answer.tool_calls.empty());
  write_if(record, "usd", answer.usd, answer.usd.has_value());
  write_if(record, "not_believed", answer.not_believed, !answer.not_believed.empty());
  write_if(record, "from_reasoning", true, answer.from_reasoning);
  write_if(record, "reasoning_bytes", answer.reasoning_bytes, answer.reasoning_bytes > 0);
  write_if(record, "carried", answer.carried, !answer.carried.is_null());
  return record;
}

ChatAnswer answer_from_record(const json& record) {
  ChatAnswer answer;
  read_fields(record, answer);
  read_if(record, "tool_calls", answer.tool_calls);
  read_if(record, "usd", answer.usd);
  read_if(record, "not_believed", answer.not_believed);
  read_if(record, "from_reasoning", answer.from_reasoning);
  read_if(record, "reasoning_bytes", answer.reasoning_bytes);
  read_if(record, "carried", answer.carried);
  return answer;
}

std::string hash_of(const ChatRequest& request) {
  // nlohmann sorts the keys; text that is not valid UTF-8 is hashed too.
  return sha256_hex(json_text(to_record(request)));
}

std::size_t bytes_of(const ChatRequest& request) {
  std::size_t bytes = 0;
  for (const ChatText& part : request.system) bytes += part.text.size();
  for (const ChatMessage& message : request.messages) {
    bytes += message.text.size() + message.tool_call_id.size();
    for (const ToolCall& call : message.tool_calls) bytes += call.name.size() + call.arguments.size();
    if (!message.carried.is_null()) bytes += json_text(message.carried).size();
  }
  for (const ToolSpec& tool : request.tools)
    bytes += tool.name.size() + tool.description.size() + json_text(tool.parameters).size();
  return bytes;
}

std::int64_t estimated_tokens(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + 3) / 4);
}

}  // namespace cultivar
