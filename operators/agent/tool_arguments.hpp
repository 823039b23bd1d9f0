// SPDX-License-Identifier: Apache-2.0
// Validates a call's arguments against the tool's schema, with error messages that a model can act on.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace cultivar {

// nullopt if they are valid. Supports what the tools' schemas use: objects with `properties`, `required` and
// no other names; `type` (a name), `enum`, `minimum`, `maximum`, `maxLength`, `items`, `maxItems`, and
// `additionalProperties` as a list of types (for the values of an object with arbitrary names).
std::optional<std::string> wrong_arguments(const nlohmann::json& schema, const nlohmann::json& arguments);

}  // namespace cultivar
