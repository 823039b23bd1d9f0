// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/http_chat.hpp"

#include <algorithm>
#include <exception>
#include <map>

#include "operators/llm/chat_errors.hpp"
#include "operators/llm/ledger.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

class ResponsesReader : public AnswerReader {
 public:
  using AnswerReader::AnswerReader;

  std::optional<ChatError> event(const SseEvent& event, const json& data) override {
    take_openai_usage(data, "input_tokens", "output_tokens");
    if (const auto response = data.find("response"); response != data.end())
      take_openai_usage(*response, "input_tokens", "output_tokens");
    const std::string type = type_of(event, data);
    if (type == "response.output_text.delta") {
      deltas_ += data.at("delta").get_ref<const std::string&>();
      tell(ChatDelta::Kind::text, data.at("delta").get_ref<const std::string&>());
    } else if (type == "response.function_call_arguments.delta") {
      tell(ChatDelta::Kind::tool_arguments, data.at("delta").get_ref<const std::string&>());
    } else if (type == "response.reasoning_summary_text.delta" || type == "response.reasoning_text.delta") {
      tell(ChatDelta::Kind::reasoning, data.at("delta").get_ref<const std::string&>());
    } else if (type == "response.output_item.done") {
      const json& item = data.at("item");
      const bool again = std::ranges::any_of(items_, [&](const auto& known) { return known.second == item; });
      if (!again) items_[index_of(data, "output_index", static_cast<std::int64_t>(items_.size()))] = item;
    } else if (type == "response.completed" || type == "response.incomplete" || type == "response.failed") {
      return whole(data.at("response"));
    } else if (type == "error") {
      return error_of_object(data.contains("error") ? data.at("error") : data);
    } else if (type.empty() && data.contains("error")) {
      return error_of_object(data.at("error"));
    }
    return std::nullopt;
  }

  // The last event holds the complete response, like the body of a response that is not streamed.
  std::optional<ChatError> whole(const json& response) override {
    take_openai_usage(response, "input_tokens", "output_tokens");
    if (const auto error = response.find("error"); error != response.end() && !error->is_null())
      return error_of_object(*error);
    const std::string status = response.at("status").get<std::string>();
    if (status != "completed" && status != "incomplete") return error_of_object("status " + status);
    answer_.model = text_of(response, "model");
    answer_.request_id = text_of(response, "id");
    const auto output = response.find("output");
    if (output != response.end() && output->is_array() && !output->empty()) items_.clear();
    if (output != response.end() && output->is_array())
      for (std::size_t i = 0; i < output->size(); ++i) items_[static_cast<std::int64_t>(i)] = (*output)[i];
    if (status == "incomplete") {
      const auto details = response.find("incomplete_details");
      incomplete_ = details != response.end() ? text_of(*details, "reason") : std::string();
      if (incomplete_.empty()) incomplete_ = status;
    }
    return ended();
  }

 private:
  std::optional<ChatError> ended() override {
    take_items();
    finished_ = true;
    if (incomplete_ == "content_filter" || (!refusal_.empty() && answer_.text.empty()))
      return refusal(refusal_);
    answer_.stop = !incomplete_.empty()         ? StopReason::length
                   : answer_.tool_calls.empty() ? StopReason::end
                                                : StopReason::tool_calls;
    return std::nullopt;
  }

  void take_items() {
    json carried = json::array();
    std::size_t bytes = 0;
    answer_.text.clear();  // the last event may come twice
    answer_.tool_calls.clear();
    refusal_.clear();
    std::exception_ptr unreadable;
    for (const auto& [index, item] : items_) try {
        take_item(item, carried);
      } catch (const json::exception&) {
        unreadable = std::current_exception();
      }
    for (const ToolCall& call : answer_.tool_calls) bytes += call.arguments.size();
    if (unreadable && answer_.text.empty() && deltas_.empty() && answer_.tool_calls.empty())
      std::rethrow_exception(unreadable);
    if (answer_.text.empty()) answer_.text = deltas_;  // some servers do not repeat it
    received_ = std::max(received_, bytes + answer_.text.size());
    if (!carried.empty()) answer_.carried = {{"openai_responses", std::move(carried)}};
  }

  void take_item(const json& item, json& carried) {
    const std::string type = item.value("type", "");
    if (type == "message") {
      for (const json& part : item.value("content", json::array())) {
        answer_.text += part.value("text", "");
        refusal_ += part.value("refusal", "");
      }
    } else if (type == "function_call") {
      answer_.tool_calls.push_back({item.at("call_id").get<std::string>(), item.at("name").get<std::string>(),
                                    item.value("arguments", "")});
    } else if (type == "reasoning" && item.contains("encrypted_content")) {
      carried.push_back(item);
    }
  }

  std::map<std::int64_t, json> items_;
  std::string deltas_;      // text as it arrived
  std::string incomplete_;  // why; empty: it is not
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
  if (!is_blank(m.text) || m.tool_calls.empty())
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
