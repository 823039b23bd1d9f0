// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/chat_errors.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

using Kind = ChatError::Kind;

namespace {

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number_integer()) return std::to_string(found->get<std::int64_t>());
  return {};
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Classifies by the error's "type" and "code" and, if a provider gives no other indication, by its message.
std::optional<Kind> kind_of_words(const std::string& names, const std::string& message) {
  if (has(names, "insufficient_quota") || has(names, "billing") || has(message, "credit balance is too low"))
    return Kind::out_of_credit;
  if (has(names, "context_length_exceeded") || has(names, "request_too_large") ||
      has(names, "exceed_context_size") || has(message, "prompt is too long") ||
      has(message, "maximum context length"))
    return Kind::too_large;
  if (has(names, "rate_limit")) return Kind::rate_limited;
  if (has(names, "overloaded") || has(names, "api_error") || has(names, "server_error") ||
      has(names, "timeout_error"))
    return Kind::overloaded;
  if (has(names, "authentication") || has(names, "permission") || has(names, "invalid_api_key"))
    return Kind::auth;
  if (has(names, "content_filter") || has(names, "content_policy")) return Kind::refused;
  if (has(names, "invalid_request") || has(names, "not_found")) return Kind::bad_request;
  return std::nullopt;
}

}  // namespace

std::string one_line(std::string_view text, std::size_t most) {
  std::string line;
  for (const char c : text.substr(0, most)) {
    const bool blank = static_cast<unsigned char>(c) <= ' ' || c == 127;
    if (!blank)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (text.size() > most) line += " ...";
  return line;
}

ChatError error_of_object(const json& error) {
  ChatError result;
  result.kind = Kind::overloaded;  // the provider ended the stream: assume overload
  result.before_work = true;
  std::string names;
  if (error.is_object()) {
    names = text_at(error, "type") + " " + text_at(error, "code");
    result.message = one_line(text_at(error, "message"));
    if (const auto kind = kind_of_words(names, result.message)) result.kind = *kind;
    const int code = std::atoi(text_at(error, "code").c_str());
    if (code >= 400 && code < 600 && !kind_of_words(names, result.message))
      result.kind = error_of_status(code, "").kind;
  } else if (error.is_string()) {
    result.message = one_line(error.get<std::string>());
  }
  names = one_line(names, 100);
  result.message = fmt::format("the provider ended the stream: {}{}{}", names, names.empty() ? "" : ": ",
                               result.message.empty() ? "no reason given" : result.message);
  return result;
}

std::string remedy_for_field(std::string_view body, const SentBody& sent) {
  const json parsed = foreign_json(body);
  const auto inner = parsed.is_object() ? parsed.find("error") : parsed.end();
  std::string named = inner != parsed.end() && inner->is_object() ? text_at(*inner, "param") : std::string();
  named = named.substr(0, named.find_first_of(".["));
  const auto is_part = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto names = [&](const std::string& field) {  // as a word, in text for people
    const std::size_t at = body.find(field), end = at + field.size();
    return at != std::string_view::npos && (at == 0 || !is_part(body[at - 1])) &&
           (end == body.size() || !is_part(body[end]));
  };
  const std::vector<std::string> fixed{"model", "messages", "input", "system", "stream"};
  std::string field;
  for (const std::string& each : sent.fields) {
    if (std::ranges::find(fixed, each) != fixed.end()) continue;
    if (each == named || (field.empty() && names(each))) field = each;
    if (each == named) break;
  }
  if (field.empty()) return {};
  return fmt::format(
      " (to send this field under another name: models.{}.rename: {{{}: {}}}; to leave it out: "
      "models.{}.extra: {{{}: null}})",
      sent.model, field, field == "max_tokens" ? "max_completion_tokens" : "NAME", sent.model, field);
}

ChatError error_of_status(int status, std::string_view body, const std::string& location) {
  ChatError error;
  error.status = status;
  const json parsed = foreign_json(body);
  std::string names, message;
  if (parsed.is_object()) {
    const auto inner = parsed.find("error");
    if (inner != parsed.end() && inner->is_object()) {
      names = text_at(*inner, "type") + " " + text_at(*inner, "code");
      message = text_at(*inner, "message");
    } else {
      names = text_at(parsed, "type") + " " + text_at(parsed, "code");
      message = text_at(parsed, inner != parsed.end() ? "error" : "message");
      if (message.empty()) message = text_at(parsed, "detail");
    }
  }
  // Not the protocol's JSON, for example HTML: use the beginning as the message.
  const bool unstructured = message.empty();
  if (unstructured) message = std::string(body.substr(0, 2000));
  const auto said = kind_of_words(names, message);

  if (status >= 300 && status < 400) {
    error.kind = Kind::bad_request;
    message = "the server redirects to " + (location.empty() ? "another address" : location) +
              ", which is not followed, because the key would be sent there; correct base_url";
  } else if (status == 401 || status == 403) {
    error.kind = Kind::auth;
  } else if (status == 402) {
    error.kind = Kind::out_of_credit;
  } else if (status == 413) {
    error.kind = Kind::too_large;
  } else if (status == 429) {
    error.kind = said == Kind::out_of_credit ? Kind::out_of_credit : Kind::rate_limited;
  } else if (status == 408 || status == 409 || status == 425 || status >= 500) {
    error.kind = Kind::overloaded;
  } else {
    error.kind = said == Kind::out_of_credit || said == Kind::too_large || said == Kind::refused
                     ? *said
                     : Kind::bad_request;
  }
  const std::string words = one_line(message, unstructured && !(status >= 300 && status < 400) ? 160 : 400);
  error.message = fmt::format("HTTP {}{}{}", status, words.empty() ? "" : ": ", words);
  return error;
}

std::optional<double> retry_after_seconds(const std::string& header, double unix_now) {
  if (header.empty()) return std::nullopt;
  double seconds = 0.0;
  const char* const end = header.data() + header.size();
  if (const auto [stop, code] = std::from_chars(header.data(), end, seconds);
      code == std::errc() && stop == end) {
    if (!std::isfinite(seconds) || seconds < 0) return std::nullopt;
    return seconds;
  }
  const std::time_t date = curl_getdate(header.c_str(), nullptr);
  if (date == -1) return std::nullopt;
  const double wait = static_cast<double>(date) - unix_now;
  if (wait < -60.0) return std::nullopt;
  return std::max(0.0, wait);
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

bool says_nothing(const ChatAnswer& answer) {
  return answer.tool_calls.empty() && is_blank(answer.text);
}

std::string what_came(const ChatAnswer& answer, std::int64_t most) {
  if (answer.from_reasoning)
    return fmt::format("it sent {} bytes of reasoning and no text after it", answer.text.size());
  const bool reasoned = answer.usage.reasoning > 0 || answer.reasoning_bytes > 0;
  if (answer.stop == StopReason::length)
    return fmt::format("it used all {} output tokens{} and sent no text", most,
                       reasoned ? " for reasoning" : "");
  return fmt::format("it sent {}{}", reasoned ? "reasoning and " : "",
                     answer.text.empty() ? "no text" : "nothing but white space as text");
}

std::string remedy_for(const ChatAnswer& answer, const ModelConfig& model, std::int64_t asked) {
  const bool own = model.max_output_tokens > 0 && model.max_output_tokens < asked;
  std::string words =
      own ? fmt::format("raise models.{}.max_output_tokens (now {})", model.name, model.max_output_tokens)
          : fmt::format("raise asking.output_tokens (now {})", asked);
  words += fmt::format(", or set a lower models.{}.effort", model.name);
  if (model.effort != Effort::unset) words += fmt::format(" (now {})", name_of(model.effort));
  if (answer.stop != StopReason::length)
    words +=
        "; if that does not help, check the server's chat template and reasoning parser, or name another "
        "model";
  return words;
}

}  // namespace cultivar
