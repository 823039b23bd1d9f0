// A configuration as JSON: {"BLOCK_M": 64, "LAYOUT": "packed"}.
#pragma once

#include <nlohmann/json.hpp>

#include "evaluators/variant/tunables.hpp"

namespace cultivar {

nlohmann::json configuration_to_json(const Configuration&);
Configuration configuration_from_json(const nlohmann::json&);  // throws nlohmann::json::exception

}  // namespace cultivar
