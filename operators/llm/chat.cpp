#include "operators/llm/chat.hpp"

#include <array>
#include <utility>

#include "evaluators/foreign_json.hpp"
#include "evaluators/variant/variant.hpp"
#include "operators/llm/said_cost.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr std::array<const char*, 3> kRoles{"user", "assistant", "tool"};
constexpr std::array<const char*, 4> kEfforts{"", "low", "medium", "high"};
constexpr std::array<const char*, 3> kChoices{"automatic", "required", "none"};
constexpr std::array<const char*, 4> kStops{"end", "tool_calls", "length", "stop_sequence"};

template <class Enum, std::size_t N>
Enum named(const std::array<const char*, N>& names, const json& value) {
  const std::string& text = value.get_ref<const std::string&>();
  for (std::size_t i = 0; i < N; ++i)
    if (text == names[i]) return static_cast<Enum>(i);
  throw json::other_error::create(501, "'" + text + "' is not known here", nullptr);
}

json calls_to_json(const std::vector<ToolCall>& calls) {
  json list = json::array();
  for (const ToolCall& call : calls)
    list.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  return list;
}

std::vector<ToolCall> calls_from_json(const json& list) {
  std::vector<ToolCall> calls;
  for (const json& call : list)
    calls.push_back({call.at("id").get<std::string>(), call.at("name").get<std::string>(),
                     call.at("arguments").get<std::string>()});
  return calls;
}

}  // namespace

std::optional<json> ToolCall::parsed() const {
  // Many providers send nothing at all for a call without arguments.
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

const char* name_of(ChatError::Kind kind) {
  static constexpr std::array names{
      "rate_limited",       "overloaded",   "out_of_credit", "unreachable", "timeout_connect",
      "timeout_first_byte", "timeout_idle", "timeout_total", "cut_off",     "garbage",
      "program_failed",     "bad_request",  "auth",          "refused",     "too_large",
      "cancelled",          "over_budget",  "no_recording",  "gave_up",     "not_recorded"};
  return names[static_cast<std::size_t>(kind)];
}

bool is_passing(ChatError::Kind kind) {
  return kind <= ChatError::Kind::program_failed;
}

json to_record(const Usage& usage) {
  return {{"input", usage.input},   {"cached", usage.cached},       {"cache_written", usage.cache_written},
          {"output", usage.output}, {"reasoning", usage.reasoning}, {"estimated", usage.estimated}};
}

Usage usage_from_record(const json& value) {
  Usage usage;
  usage.input = value.at("input").get<std::int64_t>();
  usage.cached = value.at("cached").get<std::int64_t>();
  usage.cache_written = value.at("cache_written").get<std::int64_t>();
  usage.output = value.at("output").get<std::int64_t>();
  usage.reasoning = value.at("reasoning").get<std::int64_t>();
  usage.estimated = value.at("estimated").get<bool>();
  return usage;
}

json to_record(const ChatRequest& request) {
  json system = json::array(), messages = json::array(), tools = json::array();
  for (const ChatText& part : request.system)
    system.push_back({{"text", part.text}, {"stable", part.stable}});
  for (const ChatMessage& m : request.messages) {
    json message{{"role", kRoles[static_cast<std::size_t>(m.role)]}, {"text", m.text}};
    if (!m.tool_calls.empty()) message["tool_calls"] = calls_to_json(m.tool_calls);
    if (!m.tool_call_id.empty()) message["tool_call_id"] = m.tool_call_id;
    if (m.tool_failed) message["tool_failed"] = true;
    if (m.stable) message["stable"] = true;
    if (!m.carried.is_null()) message["carried"] = m.carried;
    messages.push_back(std::move(message));
  }
  for (const ToolSpec& tool : request.tools)
    tools.push_back(
        {{"name", tool.name}, {"description", tool.description}, {"parameters", tool.parameters}});
  json record{{"system", std::move(system)},
              {"messages", std::move(messages)},
              {"max_output_tokens", request.max_output_tokens}};
  if (!tools.empty()) {
    record["tools"] = std::move(tools);
    record["tool_choice"] = kChoices[static_cast<std::size_t>(request.tool_choice)];
  }
  if (request.temperature) record["temperature"] = *request.temperature;
  if (!request.stop.empty()) record["stop"] = request.stop;
  if (request.effort != Effort::unset) record["effort"] = kEfforts[static_cast<std::size_t>(request.effort)];
  return record;
}

ChatRequest request_from_record(const json& record) {
  ChatRequest request;
  for (const json& part : record.at("system"))
    request.system.push_back({part.at("text").get<std::string>(), part.at("stable").get<bool>()});
  for (const json& m : record.at("messages")) {
    ChatMessage message;
    message.role = named<ChatRole>(kRoles, m.at("role"));
    message.text = m.at("text").get<std::string>();
    if (m.contains("tool_calls")) message.tool_calls = calls_from_json(m.at("tool_calls"));
    message.tool_call_id = m.value("tool_call_id", "");
    message.tool_failed = m.value("tool_failed", false);
    message.stable = m.value("stable", false);
    if (m.contains("carried")) message.carried = m.at("carried");
    request.messages.push_back(std::move(message));
  }
  for (const json& tool : record.value("tools", json::array()))
    request.tools.push_back({tool.at("name").get<std::string>(), tool.at("description").get<std::string>(),
                             tool.at("parameters")});
  if (record.contains("tool_choice"))
    request.tool_choice = named<ToolChoice>(kChoices, record.at("tool_choice"));
  request.max_output_tokens = record.at("max_output_tokens").get<std::int64_t>();
  if (record.contains("temperature")) request.temperature = record.at("temperature").get<double>();
  if (record.contains("stop")) request.stop = record.at("stop").get<std::vector<std::string>>();
  if (record.contains("effort")) request.effort = named<Effort>(kEfforts, record.at("effort"));
  return request;
}

json to_record(const ChatAnswer& answer) {
  json record{{"text", answer.text},
              {"stop", kStops[static_cast<std::size_t>(answer.stop)]},
              {"usage", to_record(answer.usage)},
              {"model", answer.model},
              {"request_id", answer.request_id},
              {"first_byte_s", answer.first_byte_s},
              {"seconds", answer.seconds}};
  if (!answer.tool_calls.empty()) record["tool_calls"] = calls_to_json(answer.tool_calls);
  if (answer.usd) record["usd"] = *answer.usd;
  if (!answer.not_believed.empty()) record["not_believed"] = answer.not_believed;
  if (!answer.carried.is_null()) record["carried"] = answer.carried;
  return record;
}

ChatAnswer answer_from_record(const json& record) {
  ChatAnswer answer;
  answer.text = record.at("text").get<std::string>();
  answer.stop = named<StopReason>(kStops, record.at("stop"));
  answer.usage = usage_from_record(record.at("usage"));
  answer.model = record.at("model").get<std::string>();
  answer.request_id = record.at("request_id").get<std::string>();
  answer.first_byte_s = record.at("first_byte_s").get<double>();
  answer.seconds = record.at("seconds").get<double>();
  if (record.contains("tool_calls")) answer.tool_calls = calls_from_json(record.at("tool_calls"));
  answer.not_believed = record.value("not_believed", "");
  if (record.contains("usd")) answer.usd = record.at("usd").get<double>();
  if (record.contains("carried")) answer.carried = record.at("carried");
  return answer;
}

std::string hash_of(const ChatRequest& request) {
  // nlohmann sorts the keys; text that is not UTF-8 has a hash too.
  return sha256_hex(to_record(request).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::size_t bytes_of(const ChatRequest& request) {
  std::size_t bytes = 0;
  for (const ChatText& part : request.system) bytes += part.text.size();
  for (const ChatMessage& message : request.messages) {
    bytes += message.text.size() + message.tool_call_id.size();
    for (const ToolCall& call : message.tool_calls) bytes += call.name.size() + call.arguments.size();
    if (!message.carried.is_null())
      bytes += message.carried.dump(-1, ' ', false, json::error_handler_t::replace).size();
  }
  for (const ToolSpec& tool : request.tools)
    bytes += tool.name.size() + tool.description.size() +
             tool.parameters.dump(-1, ' ', false, json::error_handler_t::replace).size();
  return bytes;
}

std::int64_t estimated_tokens(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + 3) / 4);
}

}  // namespace cultivar
