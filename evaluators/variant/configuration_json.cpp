// SPDX-License-Identifier: Apache-2.0
#include "evaluators/variant/configuration_json.hpp"

#include <nlohmann/json.hpp>

namespace nlohmann {

void adl_serializer<cultivar::TunableValue>::to_json(json& j, const cultivar::TunableValue& value) {
  std::visit([&](const auto& held) { j = held; }, value);
}

void adl_serializer<cultivar::TunableValue>::from_json(const json& j, cultivar::TunableValue& value) {
  if (j.is_string())
    value = j.get<std::string>();
  else if (j.is_number_integer())  // a fraction would be cut off, and one beyond 2^63 is undefined
    value = j.get<std::int64_t>();
  else
    throw json::type_error::create(302, "a tunable's value must be a whole number or a name", &j);
}

}  // namespace nlohmann
