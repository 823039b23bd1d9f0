// SPDX-License-Identifier: Apache-2.0
// What the sections of a configuration share: plain keys as one list, which reads a section and writes it
// out, and the detection of secrets, which must not get into a configuration.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

struct Seconds {
  double* value;
  bool may_be_zero = false;
};
struct Setting {
  const char* key;
  std::variant<int*, std::int64_t*, double*, bool*, Seconds> value;  // outlive the setting
  double least = 0.0, most = 0.0;                                    // of a number
};
using Settings = std::vector<Setting>;

// A key that is absent leaves its value as it is.
void read_settings(YamlMap&, const Settings&);
std::string flow_text(const Settings&);   // "{islands: 4, elites: 32}"
std::string block_text(const Settings&);  // lines, each with an indentation of two

// Detects texts that look like a key, so that none gets into a configuration and from there into the record.

// "api_key", "x-api-key", "Authorization", "secret"; not "max_tokens" or "api_key_env".
bool names_a_secret(std::string_view name);
// "sk-...", "Bearer ...", a long word of letters and digits.
bool looks_like_a_secret(std::string_view value);

// The place of a secret, without its text: "field 'api_key'"; nullopt if there is none.
std::optional<std::string> secret_in(const nlohmann::json& fields);
// "argument 3": `--api-key X`, `KEY=...`, `-H "Authorization: ..."`.
std::optional<std::string> secret_in(const std::vector<std::string>& command);

}  // namespace cultivar
