// A call's arguments against the schema that the tool shows: what does not fit is told in words that a model
// can act on.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace cultivar {

// nullopt: they fit. Knows what the tools' schemas use: objects with `properties`, `required` and no further
// names; `type` (a name), `enum`, `minimum`, `maximum`, `maxLength`, `items`, `maxItems`, and
// `additionalProperties` as a list of types (of the values of an object with free names).
std::optional<std::string> wrong_arguments(const nlohmann::json& schema, const nlohmann::json& arguments);

}  // namespace cultivar
