#include "operators/llm/openai.hpp"

#include <array>
#include <map>

#include "operators/llm/chat_errors.hpp"
#include "operators/llm/said_cost.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

class OpenAiReader : public AnswerReader {
 public:
  explicit OpenAiReader(std::function<void(const ChatDelta&)> delta) : delta_(std::move(delta)) {}

  std::optional<ChatError> event(const SseEvent&, const json& data) override {
    if (const auto error = data.find("error"); error != data.end() && !error->is_null())
      return error_of_object(*error);
    return take_choices(data, "delta");
  }

  std::optional<ChatError> whole(const json& body) override {
    if (const auto error = body.find("error"); error != body.end() && !error->is_null())
      return error_of_object(*error);
    return take_choices(body, "message");
  }

  bool complete() const override { return finished_; }
  std::size_t received_bytes() const override { return received_; }
  const Usage* usage() const override { return usage_ ? &*usage_ : nullptr; }

  ChatAnswer take() override {
    for (auto& [index, call] : calls_) answer_.tool_calls.push_back(std::move(call));
    if (usage_) answer_.usage = *usage_;
    return std::move(answer_);
  }

 private:
  std::optional<ChatError> take_choices(const json& data, const char* part) {
    if (answer_.model.empty()) answer_.model = text_of(data, "model");
    if (answer_.request_id.empty()) answer_.request_id = text_of(data, "id");
    if (const auto usage = data.find("usage"); usage != data.end() && usage->is_object()) take_usage(*usage);
    const auto choices = data.find("choices");
    if (choices == data.end() || choices->empty()) return std::nullopt;  // the usage comes alone
    const json& choice = choices->at(0);
    if (const auto found = choice.find(part); found != choice.end() && found->is_object()) take_part(*found);
    return take_finish(text_of(choice, "finish_reason"));
  }

  void take_part(const json& part) {
    const std::string text = text_of(part, "content");
    answer_.text += text;
    tell(ChatDelta::Kind::text, text);
    refusal_ += text_of(part, "refusal");
    // Not of the standard: DeepSeek, vLLM and llama.cpp say the one, OpenRouter and others the other.
    std::string reasoning = text_of(part, "reasoning_content");
    if (reasoning.empty()) reasoning = text_of(part, "reasoning");
    tell(ChatDelta::Kind::reasoning, reasoning);
    const auto calls = part.find("tool_calls");
    if (calls == part.end() || !calls->is_array()) return;
    std::int64_t position = 0;
    for (const json& piece : *calls) {
      ToolCall& call = calls_[piece.value("index", position++)];
      if (call.id.empty()) call.id = text_of(piece, "id");
      const auto function = piece.find("function");
      if (function == piece.end()) continue;
      if (call.name.empty()) call.name = text_of(*function, "name");
      const auto arguments = function->find("arguments");
      if (arguments == function->end() || arguments->is_null()) continue;
      const std::string more =
          arguments->is_string() ? arguments->get<std::string>() : arguments->dump();  // Ollama: an object
      call.arguments += more;
      tell(ChatDelta::Kind::tool_arguments, more);
    }
  }

  std::optional<ChatError> take_finish(const std::string& reason) {
    if (reason.empty()) return std::nullopt;
    finished_ = true;
    if (reason == "content_filter" || !refusal_.empty()) {
      ChatError error;
      error.kind = ChatError::Kind::refused;
      error.message = refusal_.empty() ? "a content filter withheld the answer"
                                       : "the model declines: " + one_line(refusal_);
      if (usage_) error.usage = *usage_;
      return error;
    }
    answer_.stop = reason == "length"                                    ? StopReason::length
                   : reason == "tool_calls" || reason == "function_call" ? StopReason::tool_calls
                                                                         : StopReason::end;
    return std::nullopt;
  }

  void take_usage(const json& said) {
    Usage usage;
    usage.input = said_tokens(said, "prompt_tokens");
    usage.output = said_tokens(said, "completion_tokens");
    if (const auto details = said.find("prompt_tokens_details");
        details != said.end() && details->is_object())
      usage.cached = std::min(said_tokens(*details, "cached_tokens"), usage.input);
    usage.input -= usage.cached;
    if (const auto details = said.find("completion_tokens_details");
        details != said.end() && details->is_object())
      usage.reasoning = said_tokens(*details, "reasoning_tokens");
    usage_ = usage;
  }

  void tell(ChatDelta::Kind kind, const std::string& text) {
    if (text.empty()) return;
    received_ += text.size();
    if (delta_) delta_({kind, text});
  }

  std::function<void(const ChatDelta&)> delta_;
  ChatAnswer answer_;
  std::map<std::int64_t, ToolCall> calls_;
  std::string refusal_;
  std::optional<Usage> usage_;
  std::size_t received_ = 0;
  bool finished_ = false;
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
      if (m.text.empty()) message["content"] = nullptr;
      for (const ToolCall& call : m.tool_calls)
        message["tool_calls"].push_back(
            {{"id", call.id},
             {"type", "function"},
             // Servers parse it again: what was no JSON goes back as nothing, and the result says why.
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
    static constexpr std::array efforts{"", "low", "medium", "high"};
    static constexpr std::array choices{"auto", "required", "none"};
    json messages = json::array();
    std::string system;  // one message: some chat templates know no second
    for (const ChatText& part : request.system) system += (system.empty() ? "" : "\n\n") + part.text;
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    for (const ChatMessage& m : request.messages) messages.push_back(message_of(m));
    // OpenAI's own newer models know the new name only, most other servers know the old one.
    const bool own = endpoint.base_url.find("api.openai.com") != std::string::npos;
    json body{{"model", endpoint.model},
              {"messages", std::move(messages)},
              {own ? "max_completion_tokens" : "max_tokens", request.max_output_tokens},
              {"stream", true},
              {"stream_options", {{"include_usage", true}}}};
    if (request.temperature) body["temperature"] = *request.temperature;
    if (!request.stop.empty()) body["stop"] = request.stop;
    if (request.effort != Effort::unset)
      body["reasoning_effort"] = efforts[static_cast<std::size_t>(request.effort)];
    for (const ToolSpec& tool : request.tools)
      body["tools"].push_back(
          {{"type", "function"},
           {"function",
            {{"name", tool.name}, {"description", tool.description}, {"parameters", tool.parameters}}}});
    if (!request.tools.empty() && request.tool_choice != ToolChoice::automatic)
      body["tool_choice"] = choices[static_cast<std::size_t>(request.tool_choice)];
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
