// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/http_chat.hpp"

#include <map>
#include <stdexcept>

#include "operators/llm/chat_errors.hpp"
#include "operators/llm/ledger.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

class OpenAiReader : public AnswerReader {
 public:
  using AnswerReader::AnswerReader;

  std::optional<ChatError> event(const SseEvent&, const json& data) override {
    return take_choices(data, "delta", "message");
  }

  std::optional<ChatError> whole(const json& body) override {
    if (auto error = take_choices(body, "message", "delta")) return error;
    return finished_ || received_ == 0 ? std::nullopt : ended();  // the body was complete
  }

 private:
  void finish(ChatAnswer& answer) override {
    for (auto& [index, call] : calls_) answer.tool_calls.push_back(std::move(call));
  }

  std::optional<ChatError> ended() override { return take_finish(calls_.empty() ? "stop" : "tool_calls"); }

  // `part`: where this form of an answer has its text; some servers have it under the name of the other.
  std::optional<ChatError> take_choices(const json& data, const char* part, const char* other) {
    take_openai_usage(data, "prompt_tokens", "completion_tokens");
    if (const auto error = data.find("error"); error != data.end() && !error->is_null())
      return error_of_object(*error);
    if (answer_.model.empty()) answer_.model = text_of(data, "model");
    if (answer_.request_id.empty()) answer_.request_id = text_of(data, "id");
    const auto choices = data.find("choices");
    if (choices == data.end() || choices->empty()) return std::nullopt;  // the usage is sent without choices
    const json& choice = choices->at(0);
    if (const auto error = choice.find("error"); error != choice.end() && error->is_object())
      return error_of_object(*error);
    if (const auto found = choice.find(part); found != choice.end() && found->is_object())
      take_part(*found);
    else if (const auto again = choice.find(other);  // it may repeat all text so far
             again != choice.end() && again->is_object() && received_ == 0)
      take_part(*again);
    return take_finish(text_of(choice, "finish_reason"));
  }

  void take_text(const std::string& text) {
    answer_.text += text;
    tell(ChatDelta::Kind::text, text);
  }

  // A text, or a list of parts, as from Mistral: {"type": "text", "text": ...}, {"type": "thinking",
  // "thinking": [parts]}.
  void take_content(const json& content) {
    if (content.is_string()) return take_text(content.get<std::string>());
    if (content.is_object()) return take_content_part(content);
    if (content.is_null()) return;
    if (!content.is_array()) throw std::invalid_argument("`content` is neither text nor a list of parts");
    for (const json& part : content)
      part.is_string() ? take_text(part.get<std::string>()) : take_content_part(part);
  }

  void take_content_part(const json& part) {
    const std::string type = text_of(part, "type");
    if (type == "refusal") {
      refusal_ += text_of(part, "refusal");
    } else if (type == "thinking" || type == "reasoning") {
      tell(ChatDelta::Kind::reasoning, text_in(part, type.c_str()) + text_of(part, "text"));
    } else if (type.empty() || type == "text" || type == "output_text") {
      take_text(part.at("text").get<std::string>());
    }  // others, such as images, are no text
  }

  // The field as a text or as a list of parts with text.
  static std::string text_in(const json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_array()) return text_of(object, key);
    std::string text;
    for (const json& part : *found)
      text += part.is_string() ? part.get<std::string>() : text_of(part, "text");
    return text;
  }

  void take_part(const json& part) {
    if (const auto content = part.find("content"); content != part.end()) take_content(*content);
    refusal_ += text_of(part, "refusal");
    // Non-standard: DeepSeek, vLLM and llama.cpp use the first name, OpenRouter and others the second.
    std::string reasoning = text_in(part, "reasoning_content");
    if (reasoning.empty()) reasoning = text_in(part, "reasoning");
    tell(ChatDelta::Kind::reasoning, reasoning);
    const auto calls = part.find("tool_calls");
    if (calls == part.end() || !calls->is_array()) return;
    std::int64_t position = 0;
    for (const json& piece : *calls) {
      ToolCall& call = calls_[index_of(piece, "index", position++)];
      if (call.id.empty()) call.id = text_of(piece, "id");
      const auto function = piece.find("function");
      if (function == piece.end() || !function->is_object()) continue;
      if (call.name.empty()) call.name = text_of(*function, "name");
      const auto arguments = function->find("arguments");
      if (arguments == function->end() || arguments->is_null()) continue;
      const std::string more = arguments->is_string() ? arguments->get<std::string>()
                                                      : arguments->dump();  // Ollama sends an object
      call.arguments += more;
      tell(ChatDelta::Kind::tool_arguments, more);
    }
  }

  std::optional<ChatError> take_finish(const std::string& reason) {
    if (reason.empty()) return std::nullopt;
    if (reason == "error") return error_of_object("finish_reason error");
    finished_ = true;
    if (reason == "content_filter" || !refusal_.empty()) return refusal(refusal_);
    answer_.stop = reason == "length"                                    ? StopReason::length
                   : reason == "tool_calls" || reason == "function_call" ? StopReason::tool_calls
                                                                         : StopReason::end;
    return std::nullopt;
  }

  std::map<std::int64_t, ToolCall> calls_;
  std::string refusal_;
};

json message_of(const ChatMessage& m) {
  json message;
  switch (m.role) {
    case ChatRole::user:
      message = {{"role", "user"}, {"content", m.text}};
      break;
    case ChatRole::tool:
      message = {{"role", "tool"},
                 {"tool_call_id", m.tool_call_id},
                 {"content", m.tool_failed ? "Error: " + m.text : m.text}};
      break;
    case ChatRole::assistant:
      message = {{"role", "assistant"}, {"content", m.text}};
      if (m.tool_calls.empty()) break;
      if (is_blank(m.text)) message["content"] = nullptr;
      for (const ToolCall& call : m.tool_calls)
        message["tool_calls"].push_back(
            {{"id", call.id},
             {"type", "function"},
             // Servers parse it: send invalid JSON as an empty object; the result explains the error.
             {"function",
              {{"name", call.name},
               {"arguments", call.parsed() ? call.parsed()->dump() : std::string("{}")}}}});
  }
  return message;
}

class OpenAi : public ChatProtocol {
 public:
  std::string path() const override { return "/chat/completions"; }

  std::vector<std::string> headers(const Secret& key) const override {
    if (key.empty()) return {};
    return {key.header("Authorization", "Bearer ")};
  }

  json body(const ChatRequest& request, const ChatEndpoint& endpoint) const override {
    json messages = json::array();
    // A single message, because some chat templates support only one.
    if (const std::string system = joined_system(request); !system.empty())
      messages.push_back({{"role", "system"}, {"content", system}});
    for (const ChatMessage& m : request.messages) messages.push_back(message_of(m));
    // OpenAI's newer models accept only the new name, most other servers the old one.
    const bool own = endpoint.base_url.find("api.openai.com") != std::string::npos;
    json body{{"model", endpoint.model},
              {"messages", std::move(messages)},
              {own ? "max_completion_tokens" : "max_tokens", request.max_output_tokens},
              {"stream", true},
              {"stream_options", {{"include_usage", true}}}};
    if (request.temperature) body["temperature"] = *request.temperature;
    if (!request.stop.empty()) body["stop"] = request.stop;
    if (request.effort != Effort::unset) body["reasoning_effort"] = name_of(request.effort);
    for (const ToolSpec& tool : request.tools)
      body["tools"].push_back(
          {{"type", "function"},
           {"function",
            {{"name", tool.name}, {"description", tool.description}, {"parameters", tool.parameters}}}});
    if (!request.tools.empty() && request.tool_choice != ToolChoice::automatic)
      body["tool_choice"] = choice_of(request, {"auto", "required", "none"});
    return body;
  }

  std::unique_ptr<AnswerReader> reader(std::function<void(const ChatDelta&)> delta) const override {
    return std::make_unique<OpenAiReader>(std::move(delta));
  }
};

}  // namespace

std::unique_ptr<const ChatProtocol> openai_protocol() {
  return std::make_unique<OpenAi>();
}

}  // namespace cultivar
