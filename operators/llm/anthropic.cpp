// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/http_chat.hpp"

#include <algorithm>
#include <map>

#include "evaluators/system/json_text.hpp"
#include "operators/llm/chat_errors.hpp"
#include "operators/llm/ledger.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr const char* kVersion = "2023-06-01";
constexpr int kBreakpoints = 4;  // limit of the API for one request

class AnthropicReader : public AnswerReader {
 public:
  using AnswerReader::AnswerReader;

  std::optional<ChatError> event(const SseEvent& event, const json& data) override {
    take_usage(data);
    if (const auto message = data.find("message"); message != data.end()) {
      take_usage(*message);
      take_names(*message);
    }
    const std::string type = type_of(event, data);
    if (type == "content_block_start") {
      last_ = index_of(data, "index", last_ + 1);
      if (const auto block = data.find("content_block"); block != data.end()) begin_block(*block);
    } else if (type == "content_block_delta") {
      last_ = index_of(data, "index", std::max<std::int64_t>(last_, 0));
      take_delta(blocks_[last_], data.at("delta"));
    } else if (type == "message_delta") {
      const std::string reason = text_of(data.value("delta", json()), "stop_reason");
      if (reason.empty()) return std::nullopt;
      reason_ = reason;
      return ended();
    } else if (type == "message_stop") {
      return ended();
    } else if (type == "error") {
      return error_of_object(data.value("error", json()));
    }  // ping, content_block_stop, and unknown events
    return std::nullopt;
  }

  std::optional<ChatError> whole(const json& body) override {
    take_usage(body);
    if (text_of(body, "type") == "error" || body.contains("error"))
      return error_of_object(body.value("error", json()));
    take_names(body);
    for (const json& block : body.at("content")) {
      tell(text_of(block, "type") == "thinking" ? ChatDelta::Kind::reasoning : ChatDelta::Kind::text,
           text_of(block, "thinking") + text_of(block, "text"));
      received_ += block.contains("input") ? json_text(block["input"]).size() : 0;
      blocks_[static_cast<std::int64_t>(blocks_.size())] = block;
    }
    reason_ = text_of(body, "stop_reason");
    return ended();
  }

 private:
  void finish(ChatAnswer& answer) override {
    json carried = json::array();
    for (auto& [index, block] : blocks_) {
      if (block.is_null()) continue;  // its beginning is missing, so a tool call has no name
      const std::string type = block.value("type", "");
      if (block.contains("text")) answer.text += block.value("text", "");
      if (type == "tool_use") {
        const auto pieces = arguments_.find(index);
        answer.tool_calls.push_back(
            {block.value("id", ""), block.value("name", ""),
             pieces != arguments_.end() ? pieces->second : json_text(block.value("input", json::object()))});
      } else if (type == "redacted_thinking" || !text_of(block, "signature").empty() ||
                 !is_blank(text_of(block, "thinking"))) {
        carried.push_back(block);
      }
    }
    if (!carried.empty()) answer.carried = {{"anthropic", std::move(carried)}};
  }

  void take_names(const json& message) {
    answer_.model = text_of(message, "model");
    answer_.request_id = text_of(message, "id");
  }

  // message_start reports the input tokens, message_delta the output so far; gateways report everything in
  // the latter.
  void take_usage(const json& object) {
    const auto found = object.find("usage");
    if (found == object.end() || !found->is_object()) return;
    const json& said = *found;
    Usage usage = usage_.value_or(Usage{});
    const auto take = [&](const char* key, std::int64_t& into) {
      into = std::max(into, said_tokens(said, key));
    };
    take("input_tokens", usage.input);
    take("cache_read_input_tokens", usage.cached);
    take("cache_creation_input_tokens", usage.cache_written);
    take("output_tokens", usage.output);
    usage_ = usage;
  }

  // It may come again, or after the deltas: what has arrived stays. Throws before it takes anything of a
  // block whose fields are no text, so that such an event after the end of an answer cannot spoil it.
  void begin_block(const json& begun) {
    if (!begun.is_object()) return;
    for (const char* key : {"type", "text", "thinking", "signature", "id", "name"})
      if (const auto field = begun.find(key);
          field != begun.end() && !(field->is_null() && key != std::string_view("type")))
        (void)field->get_ref<const std::string&>();
    json& block = blocks_[last_];
    if (block.is_null()) tell(ChatDelta::Kind::text, text_of(begun, "text"));
    for (const auto& [key, value] : begun.items())
      if (!value.is_null() && !block.contains(key)) block[key] = value;
  }

  // The beginning of the block may be missing.
  void take_delta(json& block, const json& delta) {
    const std::string& type = delta.at("type").get_ref<const std::string&>();
    if (type == "text_delta") {
      append(block, "text", delta.at("text"), ChatDelta::Kind::text);
    } else if (type == "input_json_delta") {
      const std::string& more = delta.at("partial_json").get_ref<const std::string&>();
      arguments_[last_] += more;
      tell(ChatDelta::Kind::tool_arguments, more);
    } else if (type == "thinking_delta") {
      append(block, "thinking", delta.at("thinking"), ChatDelta::Kind::reasoning);
    } else if (type == "signature_delta") {
      if (const std::string signature = text_of(delta, "signature"); !signature.empty())
        block["signature"] = signature;
    }
  }

  void append(json& block, const char* key, const json& more, ChatDelta::Kind kind) {
    const std::string& text = more.get_ref<const std::string&>();
    if (!block.contains("type")) block["type"] = key;  // "text" and "thinking" name the type and its field
    json& field = block[key];
    if (!field.is_string()) field = "";
    field.get_ref<std::string&>() += text;
    tell(kind, text);
  }

  std::optional<ChatError> ended() override {
    finished_ = true;
    if (reason_ == "refusal")
      return ChatError{.kind = ChatError::Kind::refused, .message = "the model refused to answer"};
    answer_.stop = reason_ == "max_tokens" || reason_ == "model_context_window_exceeded" ? StopReason::length
                   : reason_ == "tool_use"      ? StopReason::tool_calls
                   : reason_ == "stop_sequence" ? StopReason::stop_sequence
                                                : StopReason::end;
    return std::nullopt;
  }

  std::map<std::int64_t, json> blocks_;
  std::map<std::int64_t, std::string> arguments_;  // by block, as they arrive
  std::int64_t last_ = -1;                         // the block that the last event named
  std::string reason_;
};

json content_of(const ChatMessage& m) {
  json content = json::array();
  if (m.role == ChatRole::tool) {
    json result{{"type", "tool_result"}, {"tool_use_id", m.tool_call_id}, {"content", m.text}};
    if (m.tool_failed) result["is_error"] = true;
    content.push_back(std::move(result));
    return content;
  }
  if (m.carried.is_object() && m.carried.contains("anthropic"))
    for (const json& block : m.carried.at("anthropic")) content.push_back(block);
  if (!is_blank(m.text)) content.push_back({{"type", "text"}, {"text", m.text}});
  for (const ToolCall& call : m.tool_calls)
    content.push_back({{"type", "tool_use"},
                       {"id", call.id},
                       {"name", call.name},
                       {"input", call.parsed().value_or(json::object())}});
  return content;
}

class Anthropic : public ChatProtocol {
 public:
  std::string path() const override { return "/messages"; }

  std::vector<std::string> headers(const Secret& key) const override {
    std::vector<std::string> headers{std::string("anthropic-version: ") + kVersion};
    if (!key.empty()) headers.push_back(key.header("x-api-key"));
    return headers;
  }

  json body(const ChatRequest& request, const ChatEndpoint& endpoint) const override {
    json system = json::array(), messages = json::array();
    std::vector<std::pair<json*, std::size_t>> marks;  // the list, and the index of the block in it
    for (const ChatText& part : request.system) {
      if (is_blank(part.text)) continue;  // the API rejects it
      system.push_back({{"type", "text"}, {"text", part.text}});
      if (part.stable) marks.emplace_back(&system, system.size() - 1);
    }
    std::vector<std::pair<std::size_t, std::size_t>> message_marks;
    for (const ChatMessage& m : request.messages) {
      const char* role = m.role == ChatRole::assistant ? "assistant" : "user";
      // All results of one turn's calls must be in one message.
      if (messages.empty() || messages.back()["role"] != role)
        messages.push_back({{"role", role}, {"content", json::array()}});
      json& content = messages.back()["content"];
      for (json& block : content_of(m)) content.push_back(std::move(block));
      if (m.stable && !content.empty()) message_marks.emplace_back(messages.size() - 1, content.size() - 1);
    }
    for (const auto& [message, block] : message_marks)
      marks.emplace_back(&messages[message]["content"], block);
    // Use the last ones: a breakpoint covers everything before it.
    for (std::size_t i = marks.size() > kBreakpoints ? marks.size() - kBreakpoints : 0; i < marks.size(); ++i)
      (*marks[i].first)[marks[i].second]["cache_control"] = {{"type", "ephemeral"}};

    json body{{"model", endpoint.model},
              {"max_tokens", request.max_output_tokens},
              {"messages", std::move(messages)},
              {"stream", true}};
    if (!system.empty()) body["system"] = std::move(system);
    if (!request.stop.empty()) body["stop_sequences"] = request.stop;
    if (request.effort != Effort::unset) {
      body["thinking"] = {{"type", "adaptive"}};
      body["output_config"] = {{"effort", name_of(request.effort)}};
    } else if (request.temperature) {
      body["temperature"] = *request.temperature;  // the API rejects it together with thinking
    }
    for (const ToolSpec& tool : request.tools)
      body["tools"].push_back(
          {{"name", tool.name}, {"description", tool.description}, {"input_schema", tool.parameters}});
    if (!request.tools.empty() && request.tool_choice != ToolChoice::automatic)
      body["tool_choice"] = {{"type", choice_of(request, {"auto", "any", "none"})}};
    return body;
  }

  std::unique_ptr<AnswerReader> reader(std::function<void(const ChatDelta&)> delta) const override {
    return std::make_unique<AnthropicReader>(std::move(delta));
  }
};

}  // namespace

std::unique_ptr<const ChatProtocol> anthropic_protocol() {
  return std::make_unique<Anthropic>();
}

}  // namespace cultivar
