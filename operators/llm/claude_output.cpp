// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/claude_output.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "operators/llm/ledger.hpp"
#include "operators/llm/sse.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

// Where the object or array that begins at `at` ends; npos: it does not.
std::size_t end_of_value(std::string_view text, std::size_t at) {
  int depth = 0;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c == '\\') ++at;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

void add_objects(std::vector<json>& objects, json value) {
  if (value.is_object()) return objects.push_back(std::move(value));
  if (value.is_array())
    for (json& part : value)
      if (part.is_object()) objects.push_back(std::move(part));
}

// The objects that begin at the beginning of a line, and those of arrays that do.
std::vector<json> objects_in(std::string_view text) {
  constexpr int kMostUnended = 64;  // each is read to the end of the text
  std::vector<json> objects;
  int unended = 0;
  for (std::size_t at = 0; at < text.size() && unended < kMostUnended;) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n", at);
    if (begin == std::string_view::npos) break;
    at = std::min(text.find('\n', begin), text.size());
    if (text[begin] != '{' && text[begin] != '[') continue;
    const std::size_t end = end_of_value(text, begin);
    if (end == std::string_view::npos) {
      ++unended;
      continue;
    }
    json value = json_with_cut_characters(text.substr(begin, end - begin));
    if (value.is_discarded()) continue;
    add_objects(objects, std::move(value));
    at = end;
  }
  return objects;
}

std::optional<std::string> text_in(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return whole_characters(found->get<std::string>());
}

std::optional<Usage> usage_in(const json& object) {
  const auto said = object.find("usage");
  if (said == object.end() || !said->is_object()) return std::nullopt;
  Usage usage;
  usage.input = said_tokens(*said, "input_tokens");
  usage.cached = said_tokens(*said, "cache_read_input_tokens");
  usage.cache_written = said_tokens(*said, "cache_creation_input_tokens");
  usage.output = said_tokens(*said, "output_tokens");
  return usage;
}

// Each message comes once for each of its blocks, with the usage so far.
std::optional<Usage> usage_of_messages(const std::vector<json>& objects) {
  std::map<std::string, Usage> messages;
  for (const json& object : objects) {
    const auto message = object.find("message");
    if (message == object.end() || !message->is_object()) continue;
    const auto usage = usage_in(*message);
    if (!usage) continue;
    Usage& most = messages[text_in(*message, "id").value_or("")];
    if (usage->total() >= most.total()) most = *usage;
  }
  if (messages.empty()) return std::nullopt;
  Usage sum;
  for (const auto& [id, usage] : messages) sum += usage;
  return sum;
}

}  // namespace

ClaudeOutput read_claude_output(const std::string& output) {
  const std::vector<json> objects = objects_in(without_terminal_codes(output));
  ClaudeOutput read;
  const json* result = nullptr;
  for (const json& object : objects) {
    if (object.contains("type") ? text_in(object, "type") == "result" : object.contains("result"))
      result = &object;
    if (const auto usd = said_usd(object, "total_cost_usd"))
      read.usd = std::max(*usd, read.usd.value_or(0.0));
  }
  if (result != nullptr) {
    const std::string outcome = text_in(*result, "subtype").value_or("");
    const auto error = result->find("is_error");
    read.complete = true;
    read.failed = (error != result->end() && *error == true) || outcome.starts_with("error");
    read.text = text_in(*result, "result");
    if (read.failed && !read.text) read.text = outcome;
    read.session = text_in(*result, "session_id").value_or("");
    read.usage = usage_in(*result);
  }
  if (!read.usage) read.usage = usage_of_messages(objects);
  return read;
}

namespace {

constexpr char kEscape = '\x1b', kBell = '\a';

// Where the sequence ends that begins with the escape at `at`.
std::size_t end_of_code(std::string_view text, std::size_t at) {
  const auto within = [&](std::size_t i, char least, char most) {
    return i < text.size() && text[i] >= least && text[i] <= most;
  };
  std::size_t i = at + 1;
  if (i >= text.size()) return i;
  if (text[i] == '[') {  // CSI: parameters, intermediates, one final byte
    ++i;
    while (within(i, ' ', '?')) ++i;
    return within(i, '@', '~') ? i + 1 : i;
  }
  if (std::string_view("]PX^_").find(text[i]) !=
      std::string_view::npos) {  // a string, up to BEL or ESC backslash
    const std::size_t end = text.find_first_of(std::string_view("\a\x1b\n", 3), i + 1);
    if (end == std::string_view::npos) return text.size();
    if (text[end] == kBell) return end + 1;
    return text[end] == kEscape && within(end + 1, '\\', '\\') ? end + 2 : end;
  }
  while (within(i, ' ', '/')) ++i;
  return within(i, '0', '~') ? i + 1 : i;
}

}  // namespace

std::string without_terminal_codes(std::string text) {
  if (text.find(kEscape) == std::string::npos) return text;
  std::string plain;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t code = std::min(text.find(kEscape, at), text.size());
    plain.append(text, at, code - at);
    at = code < text.size() ? end_of_code(text, code) : code;
  }
  return plain;
}

}  // namespace cultivar
