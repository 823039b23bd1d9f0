// SPDX-License-Identifier: Apache-2.0
// A key. It can be sent and removed from text; it cannot be printed, compared or copied into a
// record.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

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

}  // namespace cultivar
