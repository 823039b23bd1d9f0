// SPDX-License-Identifier: Apache-2.0
// A key. It can be sent and removed from text; it cannot be printed, compared or copied into a record.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

class Secret {
 public:
  Secret() = default;  // no key: nothing is sent or redacted
  explicit Secret(std::string value);

  bool empty() const { return value_.empty(); }
  std::string header(const std::string& name, const std::string& before = {}) const {
    return name + ": " + before + value_;
  }
  // `text` with every occurrence of the key replaced by "[key]".
  std::string redacted(std::string text) const;
  nlohmann::json redacted_json(const nlohmann::json&) const;  // in every string, including names

 private:
  std::string value_;
};

// The value of an environment variable; nullopt if it is not set.
using EnvironmentReader = std::function<std::optional<std::string>(const std::string& name)>;
EnvironmentReader process_environment();

// An empty name gives an empty secret. An Error names the variable, never its value.
Expected<Secret> secret_from(const std::string& variable, const EnvironmentReader&);

// Removes keys from the output of programs and providers before it is recorded or shown.

// "sk-...", "ghp_...": prefixes of the keys of known services.
bool begins_like_a_key(std::string_view word);

class KeyMask {
 public:
  KeyMask() = default;
  // Masks the current values of these variables, and of every variable of this process with a typical suffix:
  // _API_KEY, _ACCESS_KEY, _TOKEN, _SECRET, _PASSWORD.
  explicit KeyMask(const std::vector<std::string>& variables);

  // Replaces each value, and a truncated prefix of one, by "[key]". Also for answers.
  std::string without_values(std::string text) const;
  // Also replaces every word that looks like a key. For error messages.
  std::string without_keys(std::string text) const;

 private:
  std::vector<std::string> values_;  // longest first, because one may be a prefix of another
};

}  // namespace cultivar
