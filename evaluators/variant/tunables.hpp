// SPDX-License-Identifier: Apache-2.0
// The tunables of a variant, and one value for each.
#pragma once

#include <compare>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "evaluators/expression/expression.hpp"

namespace cultivar {

// A whole number, or an identifier that becomes a macro and an enumerator (LAYOUT_packed).
using TunableValue = std::variant<std::int64_t, std::string>;
std::string to_string(const TunableValue&);

// A surrogate model has a column for each name.
inline constexpr std::size_t most_tunables = 255, most_tunable_values = 4096, most_tunable_names = 256;

struct Tunable {
  std::string name;
  std::vector<TunableValue> values;  // at least one, without duplicates; all numbers or all identifiers
  TunableValue fallback;             // the default: one of `values`
  bool categorical() const { return std::holds_alternative<std::string>(values.front()); }
  friend bool operator==(const Tunable&, const Tunable&) = default;
};

// Tunable -> value, with one entry for each tunable of the manifest.
using Configuration = std::map<std::string, TunableValue, std::less<>>;

Configuration default_configuration(const std::vector<Tunable>&);
// An Error names the tunable and the invalid value.
Expected<void> check_configuration(const std::vector<Tunable>&, const Configuration&);
// Numbers for expressions: an identifier is represented by its index, and `NAME_value` names are bound to the
// indices of the values.
Bindings bindings(const std::vector<Tunable>&, const Configuration&);
// For example "BLOCK_M=128 LAYOUT=packed", in the manifest's order.
std::string to_string(const std::vector<Tunable>&, const Configuration&);

}  // namespace cultivar

// JSON of tunable values: a number or a text each, so that a Configuration is an object of them.
template <>
struct nlohmann::adl_serializer<cultivar::TunableValue> {
  static void to_json(json&, const cultivar::TunableValue&);
  static void from_json(const json&, cultivar::TunableValue&);  // throws json::exception
};
