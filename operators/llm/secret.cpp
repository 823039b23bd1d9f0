// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/secret.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

namespace cultivar {

Secret::Secret(std::string value) : value_(std::move(value)) {}

std::string Secret::redacted(std::string text) const {
  // Shorter values are not keys (a local server's "x"), and redacting them would damage normal text.
  if (value_.size() < 6) return text;
  for (std::size_t at = 0; (at = text.find(value_, at)) != std::string::npos; at += 5)
    text.replace(at, value_.size(), "[key]");
  return text;
}

nlohmann::json Secret::redacted_json(const nlohmann::json& value) const {
  if (value.is_string()) return redacted(value.get<std::string>());
  if (!value.is_structured()) return value;
  nlohmann::json result = value.is_array() ? nlohmann::json::array() : nlohmann::json::object();
  for (const auto& [name, item] : value.items())
    if (value.is_array())
      result.push_back(redacted_json(item));
    else
      result[redacted(name)] = redacted_json(item);
  return result;
}

EnvironmentReader process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (!value) return std::nullopt;
    return std::string(value);
  };
}

Expected<Secret> secret_from(const std::string& variable, const EnvironmentReader& environment) {
  if (variable.empty()) return Secret();
  const auto value = environment(variable);
  if (!value || value->empty())
    return failure("read key", "the environment variable " + variable + " is not set; set it to the key");
  // Other characters could end the header line and start another one.
  if (!std::all_of(value->begin(), value->end(), [](char c) { return c > ' ' && c < 127; }))
    return failure("read key", "the environment variable " + variable +
                                   " contains spaces, line ends or other characters that are not allowed in "
                                   "a key; correct its value");
  return Secret(*value);
}

namespace {

constexpr std::string_view kMask = "[key]";
// Shorter values are not keys (a local server's "x"), and masking them would damage normal text.
constexpr std::size_t kShortestNamed = 6, kShortestGuessed = 8;
constexpr std::size_t kTelling = 12;  // a prefix of this length is masked like the key
constexpr std::size_t kShortestWord = 12, kShortestUnmarked = 40;

bool letter_or_digit(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

bool part_of_a_key(char c) {
  return letter_or_digit(c) || c == '-' || c == '_' || c == '.';
}

bool named_like_a_key(std::string_view name) {
  constexpr std::array<std::string_view, 5> ends{"_API_KEY", "_ACCESS_KEY", "_TOKEN", "_SECRET", "_PASSWORD"};
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

bool shaped_like_a_key(std::string_view word) {
  bool digit = false, upper = false, lower = false;
  for (const char c : word) {
    digit = digit || (c >= '0' && c <= '9');
    upper = upper || (c >= 'A' && c <= 'Z');
    lower = lower || (c >= 'a' && c <= 'z');
  }
  if (begins_like_a_key(word))
    return word.size() >= 2 * kShortestWord || (digit && word.size() >= kShortestWord);
  // A digest has letters of only one case.
  return word.size() >= kShortestUnmarked && digit && upper && lower && word.find('.') == word.npos;
}

}  // namespace

bool begins_like_a_key(std::string_view word) {
  constexpr std::array<std::string_view, 10> marks{"sk-",  "xai-", "gsk_",        "hf_",  "nvapi-",
                                                   "ghp_", "AIza", "github_pat_", "AKIA", "eyJ"};
  return std::ranges::any_of(marks, [&](std::string_view mark) { return word.starts_with(mark); });
}

KeyMask::KeyMask(const std::vector<std::string>& variables) {
  for (const std::string& name : variables)
    if (const char* value = name.empty() ? nullptr : std::getenv(name.c_str()))
      if (const std::string_view text(value); text.size() >= kShortestNamed) values_.emplace_back(text);
  for (char** entry = ::environ; entry && *entry; ++entry) {
    const std::string_view variable(*entry);
    const std::size_t equals = variable.find('=');
    if (equals == variable.npos || !named_like_a_key(variable.substr(0, equals))) continue;
    if (const auto value = variable.substr(equals + 1); value.size() >= kShortestGuessed)
      values_.emplace_back(value);
  }
  std::ranges::sort(values_, std::ranges::greater(), &std::string::size);
}

std::string KeyMask::without_values(std::string text) const {
  for (const std::string& value : values_) {
    const std::string_view beginning = std::string_view(value).substr(0, kTelling);
    for (std::size_t at = 0; (at = text.find(beginning, at)) != std::string::npos; at += kMask.size()) {
      const auto cut = std::mismatch(value.begin(), value.end(),
                                     text.begin() + static_cast<std::ptrdiff_t>(at), text.end());
      text.replace(at, static_cast<std::size_t>(cut.first - value.begin()), kMask);
    }
  }
  return text;
}

std::string KeyMask::without_keys(std::string text) const {
  text = without_values(std::move(text));
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!letter_or_digit(text[at]) || (at > 0 && letter_or_digit(text[at - 1]))) continue;
    std::size_t end = at;
    while (end < text.size() && part_of_a_key(text[end])) ++end;
    while (end > at && text[end - 1] == '.') --end;
    if (!shaped_like_a_key(std::string_view(text).substr(at, end - at))) continue;
    text.replace(at, end - at, kMask);
    at += kMask.size() - 1;
  }
  return text;
}

}  // namespace cultivar
