// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/openai_responses.hpp"

#include <map>

#include "operators/llm/chat_errors.hpp"
#include "operators/llm/said_cost.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

class ResponsesReader : public AnswerReader {
 public:
  using AnswerReader::AnswerReader;

  std::optional<ChatError> event(const SseEvent&, const json& data) override {
    const std::string& type = data.at("type").get_ref<const std::string&>();
    if (type == "response.output_text.delta") {
      tell(ChatDelta::Kind::text, data.at("delta").get_ref<const std::string&>());
    } else if (type == "response.function_call_arguments.delta") {
      tell(ChatDelta::Kind::tool_arguments, data.at("delta").get_ref<const std::string&>());
    } else if (type == "response.reasoning_summary_text.delta" || type == "response.reasoning_text.delta") {
      tell(ChatDelta::Kind::reasoning, data.at("delta").get_ref<const std::string&>());
    } else if (type == "response.output_item.done") {
      items_[data.at("output_index").get<int>()] = data.at("item");
    } else if (type == "response.completed" || type == "response.incomplete" || type == "response.failed") {
      return whole(data.at("response"));
    } else if (type == "error") {
      return error_of_object(data.contains("error") ? data.at("error") : data);
    }
    return std::nullopt;
  }

  // The last event holds the complete response, like the body of a response that is not streamed.
  std::optional<ChatError> whole(const json& response) override {
    if (const auto usage = response.find("usage"); usage != response.end() && usage->is_object())
      take_openai_usage(*usage, "input_tokens", "output_tokens");
    const std::string status = response.at("status").get<std::string>();
    if (const auto error = response.find("error"); error != response.end() && !error->is_null())
      return with_usage(error_of_object(*error));
    if (status != "completed" && status != "incomplete")
      return with_usage(error_of_object("status " + status));
    answer_.model = response.value("model", "");
    answer_.request_id = response.value("id", "");
    if (const auto output = response.find("output"); output != response.end() && output->is_array())
      for (std::size_t i = 0; i < output->size(); ++i) items_[static_cast<int>(i)] = (*output)[i];
    std::string reason;
    if (status == "incomplete" && response.contains("incomplete_details") &&
        response.at("incomplete_details").is_object())
      reason = response.at("incomplete_details").value("reason", "");
    take_items();
    finished_ = true;
    if (reason == "content_filter" || (!refusal_.empty() && answer_.text.empty())) return refusal(refusal_);
    answer_.stop = status == "incomplete"       ? StopReason::length
                   : answer_.tool_calls.empty() ? StopReason::end
                                                : StopReason::tool_calls;
    return std::nullopt;
  }

 private:
  ChatError with_usage(ChatError error) const {
    if (usage_) error.usage = *usage_;
    return error;
  }

  void take_items() {
    json carried = json::array();
    std::size_t bytes = 0;
    for (const auto& [index, item] : items_) {
      const std::string type = item.value("type", "");
      if (type == "message") {
        for (const json& part : item.value("content", json::array())) {
          answer_.text += part.value("text", "");
          refusal_ += part.value("refusal", "");
        }
      } else if (type == "function_call") {
        answer_.tool_calls.push_back({item.at("call_id").get<std::string>(),
                                      item.at("name").get<std::string>(), item.value("arguments", "")});
        bytes += answer_.tool_calls.back().arguments.size();
      } else if (type == "reasoning" && item.contains("encrypted_content")) {
        carried.push_back(item);
      }
    }
    received_ = std::max(received_, bytes + answer_.text.size());
    if (!carried.empty()) answer_.carried = {{"openai_responses", std::move(carried)}};
  }

  std::map<int, json> items_;
  std::string refusal_;
};

void add_message(json& input, const ChatMessage& m) {
  if (m.role == ChatRole::tool) {
    input.push_back({{"type", "function_call_output"},
                     {"call_id", m.tool_call_id},
                     {"output", m.tool_failed ? "Error: " + m.text : m.text}});
    return;
  }
  if (m.carried.is_object() && m.carried.contains("openai_responses"))
    for (const json& item : m.carried.at("openai_responses")) input.push_back(item);
  if (!m.text.empty() || m.tool_calls.empty())
    input.push_back({{"role", m.role == ChatRole::user ? "user" : "assistant"}, {"content", m.text}});
  for (const ToolCall& call : m.tool_calls)
    input.push_back({{"type", "function_call"},
                     {"call_id", call.id},
                     {"name", call.name},
                     {"arguments", call.parsed() ? call.parsed()->dump() : std::string("{}")}});
}

class Responses : public ChatProtocol {
 public:
  std::string path() const override { return "/responses"; }

  std::string cannot_say(const ChatRequest& request) const override {
    return request.stop.empty() ? "" : "the Responses protocol has no stop sequences; use provider openai";
  }

  std::vector<std::string> headers(const Secret& key) const override {
    if (key.empty()) return {};
    return {key.header("Authorization", "Bearer ")};
  }

  json body(const ChatRequest& request, const ChatEndpoint& endpoint) const override {
    json input = json::array();
    for (const ChatMessage& m : request.messages) add_message(input, m);
    const std::string system = joined_system(request);
    json body{{"model", endpoint.model},
              {"input", std::move(input)},
              {"max_output_tokens", request.max_output_tokens},
              {"store", false},
              {"stream", true}};
    if (!system.empty()) body["instructions"] = system;
    if (request.temperature) body["temperature"] = *request.temperature;
    if (request.effort != Effort::unset) {
      body["reasoning"] = {{"effort", name_of(request.effort)}};
      body["include"] = json::array({"reasoning.encrypted_content"});
    }
    for (const ToolSpec& tool : request.tools)
      body["tools"].push_back({{"type", "function"},
                               {"name", tool.name},
                               {"description", tool.description},
                               {"parameters", tool.parameters},
                               {"strict", false}});
    if (!request.tools.empty() && request.tool_choice != ToolChoice::automatic)
      body["tool_choice"] = choice_of(request, {"auto", "required", "none"});
    return body;
  }

  std::unique_ptr<AnswerReader> reader(std::function<void(const ChatDelta&)> delta) const override {
    return std::make_unique<ResponsesReader>(std::move(delta));
  }
};

}  // namespace

std::unique_ptr<const ChatProtocol> openai_responses_protocol() {
  return std::make_unique<Responses>();
}

}  // namespace cultivar
