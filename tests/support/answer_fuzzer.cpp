// SPDX-License-Identifier: Apache-2.0
#include "support/answer_fuzzer.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "operators/llm/claude_output.hpp"
#include "operators/llm/http_chat.hpp"
#include "support/chat_server.hpp"

namespace cultivar::testing {

using nlohmann::json;

namespace {

constexpr std::string_view kData = "data: ";

std::size_t below(std::mt19937_64& random, std::size_t most) {
  return most == 0 ? 0 : static_cast<std::size_t>(random() % most);
}

std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Up to and including each blank line, or each line.
std::vector<std::string> split(const std::string& text, const std::string& end) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = text.find(end, at);
    const std::size_t next = found == std::string::npos ? text.size() : found + end.size();
    parts.push_back(text.substr(at, next - at));
    at = next;
  }
  return parts;
}

// What a plain parser reads.
struct Plain {
  bool over = false;    // the answer is complete
  bool broken = false;  // something before its end cannot be read
  std::string text;
  std::map<std::int64_t, std::string> blocks = {};  // of the text, where a protocol numbers them
  std::int64_t block = -1;
  std::int64_t input = 0, output = 0;  // tokens, the highest that were said
  double usd = 0.0;
  bool readable() const { return over && !broken; }
};

std::string string_in(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string()
             ? object[key].get<std::string>()
             : std::string();
}

void take_count(const json& usage, const char* key, std::int64_t& most) {
  if (usage.is_object() && usage.contains(key) && usage[key].is_number_integer())
    most = std::max(most, usage[key].get<std::int64_t>());
}

void take_usage(const json& object, const char* input, const char* output, Plain& plain) {
  if (!object.is_object() || !object.contains("usage")) return;
  take_count(object["usage"], input, plain.input);
  take_count(object["usage"], output, plain.output);
}

// They throw what they cannot read.
void read_openai(const json& event, Plain& plain) {
  take_usage(event, "prompt_tokens", "completion_tokens", plain);
  if (event.contains("error") && !event["error"].is_null()) throw std::runtime_error("error");
  if (!event.contains("choices") || event["choices"].empty()) return;
  const json& choice = event["choices"].at(0);
  if (choice.contains("error")) throw std::runtime_error("error");
  const json delta = choice.value("delta", json());
  if (delta.is_object() && delta.contains("content") && !delta["content"].is_null())
    plain.text += delta["content"].get<std::string>();
  plain.over = plain.over || !string_in(choice, "finish_reason").empty();
}

void read_anthropic(const std::string& name, const json& event, Plain& plain) {
  take_usage(event, "input_tokens", "output_tokens", plain);
  if (event.is_object() && event.contains("message"))
    take_usage(event["message"], "input_tokens", "output_tokens", plain);
  const std::string type = string_in(event, "type").empty() ? name : string_in(event, "type");
  const json index = event.value("index", json());
  if (type == "content_block_start")
    plain.block = index.is_number_integer() ? index.get<std::int64_t>() : plain.block + 1;
  if (type == "content_block_delta")
    plain.block =
        index.is_number_integer() ? index.get<std::int64_t>() : std::max<std::int64_t>(plain.block, 0);
  if (type == "content_block_start" && event.contains("content_block") &&
      event["content_block"].is_object()) {
    for (const char* key : {"type", "text", "thinking", "id", "name"})
      if (event["content_block"].contains(key)) (void)event["content_block"][key].get<std::string>();
  } else if (type == "content_block_delta") {
    const json& delta = event.at("delta");
    const std::string kind = delta.at("type").get<std::string>();
    if (kind == "text_delta") {
      plain.blocks[plain.block] += delta.at("text").get<std::string>();
      plain.text.clear();
      for (const auto& [number, text] : plain.blocks) plain.text += text;
    }
    if (kind == "thinking_delta") (void)delta.at("thinking").get<std::string>();
    if (kind == "input_json_delta") (void)delta.at("partial_json").get<std::string>();
  } else if (type == "message_delta") {
    plain.over = plain.over || !string_in(event.value("delta", json()), "stop_reason").empty();
  } else if (type == "message_stop") {
    plain.over = true;
  } else if (type == "error") {
    throw std::runtime_error("error");
  }
}

// Only the last event: it repeats the answer.
void read_responses(const std::string& name, const json& event, Plain& plain) {
  take_usage(event, "input_tokens", "output_tokens", plain);
  if (event.contains("response")) take_usage(event["response"], "input_tokens", "output_tokens", plain);
  const std::string type = string_in(event, "type").empty() ? name : string_in(event, "type");
  if (type == "response.output_text.delta" || type == "response.function_call_arguments.delta" ||
      type == "response.reasoning_summary_text.delta")
    (void)event.at("delta").get<std::string>();
  if (type == "response.output_item.done") (void)event.at("item");
  if (type == "error" || type == "response.failed") throw std::runtime_error("error");
  if (type != "response.completed") return;
  const json& response = event.at("response");
  if (response.at("status") != "completed") throw std::runtime_error("status");
  if (!response.value("error", json()).is_null()) throw std::runtime_error("error");
  std::string text;
  for (const json& item : response.at("output")) {
    const std::string kind = item.at("type").get<std::string>();
    if (kind == "message")
      for (const json& part : item.at("content")) text += part.at("text").get<std::string>();
  }
  plain.text = text;
  plain.over = true;
}

Plain read_plainly(const std::string& provider, const std::string& bytes) {
  Plain plain;
  std::string name;
  for (const std::string& raw : split(bytes, "\n")) {
    const bool cut = !raw.ends_with('\n');
    const std::string line = raw.substr(0, raw.size() - (cut ? 0 : 1));
    if (line.empty()) name.clear();
    if (line.starts_with("event: ")) name = line.substr(7);
    if (!line.starts_with(kData)) continue;
    const std::string data = line.substr(kData.size());
    if (data == "[DONE]") {
      plain.over = plain.over || !plain.text.empty();
      continue;
    }
    if (data.empty()) continue;
    const json event = json::parse(data, nullptr, false);
    if (event.is_discarded() && cut) continue;
    const bool over = plain.over;
    const std::string text = plain.text;
    try {
      if (event.is_discarded()) throw std::runtime_error("no JSON");
      if (provider == "openai")
        read_openai(event, plain);
      else if (provider == "anthropic")
        read_anthropic(name, event, plain);
      else
        read_responses(name, event, plain);
    } catch (const std::exception&) {
      plain.text = text;
      if (over) continue;
      plain.broken = true;
      break;
    }
  }
  return plain;
}

// Also lines before the result that are no JSON.
Plain read_claude_plainly(const std::string& output) {
  Plain plain;
  for (const std::string& line : split(output, "\n")) {
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object()) continue;
    if (const auto usd = object.find("total_cost_usd"); usd != object.end() && usd->is_number())
      plain.usd = std::max(plain.usd, usd->get<double>());
    if (string_in(object, "type") != "result") continue;
    plain.over = object.contains("result") && object["result"].is_string() &&
                 object.value("is_error", json(false)) != true &&
                 !string_in(object, "subtype").starts_with("error");
    plain.text = string_in(object, "result");
    plain.input = plain.output = 0;
    take_usage(object, "input_tokens", "output_tokens", plain);
  }
  return plain;
}

std::string lost_by_claude(const std::string& bytes) {
  const Plain plain = read_claude_plainly(bytes);
  const ClaudeOutput read = read_claude_output(bytes);
  if (plain.readable() && (!read.complete || read.failed || read.text.value_or("") != plain.text))
    return "the result " + quoted(plain.text);
  const Usage usage = read.usage.value_or(Usage{});
  if (usage.input < plain.input || usage.output < plain.output) return "tokens";
  return read.usd.value_or(0.0) < plain.usd ? "USD" : "";
}

ChatResult read_as_cultivar(const std::string& provider, const std::string& bytes, std::mt19937_64& pieces,
                            std::string& fed) {
  const auto protocol = provider == "openai"      ? openai_protocol()
                        : provider == "anthropic" ? anthropic_protocol()
                                                  : openai_responses_protocol();
  ChatResult result;
  int times = 0;
  const auto reader = response_reader(protocol->reader({}), {}, {"m", {}, 400}, {}, [&](ChatResult r) {
    result = std::move(r);
    ++times;
  });
  HttpHead head;
  head.status = 200;
  head.content_type = "text/event-stream";
  reader->head(head);
  bool more = true;
  for (const std::string& line : split(bytes, "\n")) {  // so that no piece ends two events
    const std::size_t at = below(pieces, line.size() + 1);
    for (const std::string& piece : {line.substr(0, at), line.substr(at)}) {
      if (!more || piece.empty()) continue;
      fed += piece;
      more = reader->body(piece);
    }
  }
  HttpEnd end;
  end.complete = end.sent = true;
  reader->end(end);
  if (times != 1) return chat_failure(ChatError::Kind::garbage, fmt::format("called {} times", times));
  return result;
}

// All places of a JSON value, as pointers.
void places_in(const json& value, const json::json_pointer& at, std::vector<json::json_pointer>& all) {
  if (!at.empty()) all.push_back(at);
  if (value.is_object())
    for (const auto& [key, part] : value.items()) places_in(part, at / key, all);
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i) places_in(value[i], at / i, all);
}

json of_another_type(const json& value, std::mt19937_64& random) {
  const std::vector<json> others{
      nullptr,       true, 5, -3, 2.5, "text", "", json::array(), json::object(), json::array({1, "a"}),
      json{{"a", 1}}};
  for (;;) {
    const json& other = others[below(random, others.size())];
    const bool same = other.type() == value.type() || (other.is_number() && value.is_number());
    if (!same) return other;
  }
}

// The JSON of an event with a field dropped or retyped.
std::string with_other_field(const std::string& event, std::mt19937_64& random) {
  const std::size_t begin = event.find('{');
  if (begin == std::string::npos) return event;
  const std::size_t end = event.find('\n', begin);
  json value = json::parse(event.substr(begin, end - begin), nullptr, false);
  if (value.is_discarded()) return event;
  std::vector<json::json_pointer> places;
  places_in(value, json::json_pointer(), places);
  if (places.empty()) return event;
  const json::json_pointer place = places[below(random, places.size())];
  if (random() % 2 == 0) {
    value[place] = of_another_type(value[place], random);
  } else {
    json& parent = value[place.parent_pointer()];
    if (parent.is_array())
      parent.erase(static_cast<std::size_t>(std::stoul(place.back())));
    else
      parent.erase(place.back());
  }
  return event.substr(0, begin) + value.dump() + event.substr(end);
}

}  // namespace

std::string RecordedAnswer::whole() const {
  std::string all;
  for (const std::string& event : events) all += event;
  return all;
}

std::vector<RecordedAnswer> recorded_answers() {
  const SaidUsage usage{100, 40, 7, 25, 5};
  const std::string text = "IDEA: \xE2\x82\xAC \"x\"\nname: y";
  const std::vector<SaidCall> calls{{"c1", "compile", "{\"a\": 1}"}};
  const std::string claude =
      "Warning: settings\n"
      R"({"type": "system", "subtype": "init"})"
      "\n"
      R"({"type": "assistant", "message": {"id": "m1", "usage": {"input_tokens": 5, "output_tokens": 2}}})"
      "\n"
      R"({"type": "result", "subtype": "success", "is_error": false, "result": "IDEA: x", "session_id": "s",)"
      R"( "total_cost_usd": 0.08, "usage": {"input_tokens": 90, "output_tokens": 30}})"
      "\n";
  return {{"openai", split(openai_events(text, usage), "\n\n")},
          {"openai", split(openai_events("go", usage, calls), "\n\n")},
          {"openai_responses", split(responses_events(text, usage), "\n\n")},
          {"anthropic", split(anthropic_events(text, usage), "\n\n")},
          {"anthropic", split(anthropic_events("go", usage, calls), "\n\n")},
          {"command", split(claude, "\n")}};
}

std::string with_faults(const RecordedAnswer& answer, std::mt19937_64& random) {
  std::vector<std::string> events = answer.events;
  for (std::size_t faults = 1 + below(random, 3); faults > 0 && !events.empty(); --faults) {
    const std::size_t at = below(random, events.size()), other = below(random, events.size());
    switch (random() % 6) {
      case 0:
        events.erase(events.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        events.insert(events.begin() + static_cast<std::ptrdiff_t>(other), events[at]);
        break;
      case 2:
        std::swap(events[at], events[other]);
        break;
      default:
        events[at] = with_other_field(events[at], random);
    }
  }
  std::string bytes = RecordedAnswer{answer.provider, events}.whole();
  if (random() % 8 == 0) bytes.resize(below(random, bytes.size() + 1));
  return bytes;
}

std::string lost_in(const std::string& provider, const std::string& bytes, std::mt19937_64& pieces) {
  if (provider == "command") return lost_by_claude(bytes);
  std::string fed;
  const ChatResult read = read_as_cultivar(provider, bytes, pieces, fed);
  const Plain plain = read_plainly(provider, fed);
  const Usage usage = read ? read->usage : read.error().usage;
  if (usage.input + usage.cached + usage.cache_written < plain.input)
    return fmt::format("{} input tokens", plain.input);
  if (usage.output < plain.output) return fmt::format("{} output tokens", plain.output);
  const Plain all = read_plainly(provider, bytes);
  if (!all.readable() || all.text.empty()) return {};  // Cultivar may find text elsewhere
  if (!read) return fmt::format("the answer {}: {}", quoted(all.text), read.error().message);
  if (read->text != all.text)
    return fmt::format("the text {}, for which there is {}", quoted(all.text), quoted(read->text));
  return {};
}

}  // namespace cultivar::testing
