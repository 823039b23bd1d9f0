// SPDX-License-Identifier: Apache-2.0
// JSON of tunable values: a number or a text each, so that a Configuration is an object of them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "evaluators/variant/tunables.hpp"

template <>
struct nlohmann::adl_serializer<cultivar::TunableValue> {
  static void to_json(json&, const cultivar::TunableValue&);
  static void from_json(const json&, cultivar::TunableValue&);  // throws json::exception
};
