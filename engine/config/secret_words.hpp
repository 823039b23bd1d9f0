// SPDX-License-Identifier: Apache-2.0
// Detects texts that look like a key, so that none gets into a configuration and from there into the record.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// "api_key", "x-api-key", "Authorization", "secret"; not "max_tokens" or "api_key_env".
bool names_a_secret(std::string_view name);
// "sk-...", "Bearer ...", a long word of letters and digits.
bool looks_like_a_secret(std::string_view value);

// The place of a secret, without its text: "field 'api_key'"; nullopt if there is none.
std::optional<std::string> secret_in(const nlohmann::json& fields);
// "argument 3": `--api-key X`, `KEY=...`, `-H "Authorization: ..."`.
std::optional<std::string> secret_in(const std::vector<std::string>& command);

}  // namespace cultivar
