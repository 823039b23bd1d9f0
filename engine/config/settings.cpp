// SPDX-License-Identifier: Apache-2.0
#include "engine/config/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "engine/config/duration.hpp"
#include "operators/llm/secret.hpp"

namespace cultivar {
namespace {

struct Read {
  const YamlNode& node;
  const Setting& setting;
  std::int64_t whole() const {
    return node.integer(static_cast<std::int64_t>(setting.least), static_cast<std::int64_t>(setting.most));
  }
  void operator()(int* value) const { *value = static_cast<int>(whole()); }
  void operator()(std::int64_t* value) const { *value = whole(); }
  void operator()(double* value) const { *value = node.number(setting.least, setting.most); }
  void operator()(bool* value) const { *value = node.boolean(); }
  void operator()(Seconds seconds) const { *seconds.value = read_duration(node, seconds.may_be_zero); }
};

struct Written {
  std::string operator()(Seconds seconds) const { return fmt::format("{}s", *seconds.value); }
  std::string operator()(const auto* value) const { return fmt::format("{}", *value); }
};

std::vector<std::string> entries(const Settings& settings) {
  std::vector<std::string> all;
  for (const Setting& setting : settings)
    all.push_back(fmt::format("{}: {}", setting.key, std::visit(Written{}, setting.value)));
  return all;
}

constexpr std::size_t shortest_key = 12, shortest_unmarked_key = 40;

bool letter_or_digit(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

// Splits a value at characters that no key contains.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  const auto part = [](char c) { return letter_or_digit(c) || c == '-' || c == '_' || c == '.'; };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && part(text[end])) ++end;
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace

void read_settings(YamlMap& map, const Settings& settings) {
  for (const Setting& setting : settings)
    if (const auto node = map.optional(setting.key)) std::visit(Read{*node, setting}, setting.value);
}

std::string flow_text(const Settings& settings) {
  return fmt::format("{{{}}}", fmt::join(entries(settings), ", "));
}

std::string block_text(const Settings& settings) {
  return fmt::format("  {}\n", fmt::join(entries(settings), "\n  "));
}

bool names_a_secret(std::string_view name) {
  std::string bare;
  for (const char c : name)
    if (letter_or_digit(c)) bare += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* how_to_get_it : {"env", "file", "path", "helper", "command"})
    if (bare.ends_with(how_to_get_it)) return false;
  for (const char* whole : {"key", "token", "auth", "pass"})
    if (bare == whole) return true;
  constexpr std::array parts{"apikey", "authorization", "authtoken", "accesstoken", "accesskey", "bearer",
                             "secret", "password",      "passwd",    "credential",  "privatekey"};
  return std::any_of(parts.begin(), parts.end(), [&](const char* p) { return bare.find(p) != bare.npos; });
}

bool looks_like_a_secret(std::string_view value) {
  std::string lower(value);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower.find("bearer ") != lower.npos || lower.find("authorization:") != lower.npos) return true;
  for (const std::string_view word : words_of(value)) {
    const bool digits = std::any_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    const bool letters =
        std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
    if (word.size() >= shortest_key && begins_like_a_key(word)) return true;
    if (digits && letters && word.size() >= shortest_unmarked_key && word.find('.') == word.npos) return true;
  }
  return false;
}

std::optional<std::string> secret_in(const nlohmann::json& fields) {
  if (fields.is_string() && looks_like_a_secret(fields.get<std::string>())) return "a value";
  for (const auto& [name, value] : fields.items()) {
    if (fields.is_object() && (names_a_secret(name) || (value.is_string() && secret_in(value))))
      return fmt::format("field '{}'", looks_like_a_secret(name) ? "..." : name);
    if (value.is_structured())
      if (auto inner = secret_in(value)) return inner;
    if (fields.is_array() && secret_in(value)) return "a value of a list";
  }
  return std::nullopt;
}

std::optional<std::string> secret_in(const std::vector<std::string>& command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string_view word = command[i];
    const std::size_t equals = word.find('=');
    const bool flag = word.starts_with("-") && equals == word.npos && i + 1 < command.size();
    const bool assigned = equals != word.npos && equals + 1 < word.size() && word[equals + 1] != '$';
    if (looks_like_a_secret(word) || ((flag || assigned) && names_a_secret(word.substr(0, equals))))
      return fmt::format("argument {}", i);
  }
  return std::nullopt;
}

}  // namespace cultivar
