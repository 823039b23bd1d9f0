// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/json_text.hpp"

#include <nlohmann/json.hpp>

namespace cultivar {

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cultivar
