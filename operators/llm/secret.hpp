// A key. It can be sent and it can be taken out of text; it cannot be printed, compared or copied into a
// record.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "evaluators/error.hpp"

namespace cultivar {

class Secret {
 public:
  Secret() = default;  // none: nothing is sent, nothing is redacted
  explicit Secret(std::string value);

  bool empty() const { return value_.empty(); }
  std::string header(const std::string& name, const std::string& before = {}) const {
    return name + ": " + before + value_;
  }
  // `text` with every occurrence of the key replaced by "[key]".
  std::string redacted(std::string text) const;
  nlohmann::json redacted_json(const nlohmann::json&) const;  // in every string of it, names too

 private:
  std::string value_;
};

// The value of an environment variable; nullopt: not set.
using EnvironmentReader = std::function<std::optional<std::string>(const std::string& name)>;
EnvironmentReader process_environment();

// An empty name gives no secret. An Error names the variable, and never its value.
Expected<Secret> secret_from(const std::string& variable, const EnvironmentReader&);

}  // namespace cultivar
