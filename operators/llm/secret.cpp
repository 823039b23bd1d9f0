// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/secret.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

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

}  // namespace cultivar
