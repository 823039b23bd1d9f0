// SPDX-License-Identifier: Apache-2.0
#include "evaluators/variant/tunables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

std::string to_string(const TunableValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  return std::get<std::string>(value);
}

Configuration default_configuration(const std::vector<Tunable>& tunables) {
  Configuration result;
  for (const Tunable& tunable : tunables) result[tunable.name] = tunable.fallback;
  return result;
}

Expected<void> check_configuration(const std::vector<Tunable>& tunables, const Configuration& configuration) {
  std::vector<std::string> names;
  for (const Tunable& tunable : tunables) {
    names.push_back(tunable.name);
    const auto found = configuration.find(tunable.name);
    if (found == configuration.end())
      return failure("tunables", fmt::format("the tunable {} has no value", tunable.name));
    if (std::find(tunable.values.begin(), tunable.values.end(), found->second) != tunable.values.end())
      continue;
    std::string allowed;
    for (const TunableValue& value : tunable.values)
      allowed += (allowed.empty() ? "" : ", ") + to_string(value);
    return failure("tunables", fmt::format("{}={} is not one of its values ({})", tunable.name,
                                           to_string(found->second), allowed));
  }
  for (const auto& [name, value] : configuration)
    if (std::find(names.begin(), names.end(), name) == names.end())
      return failure("tunables", fmt::format("unknown tunable '{}'{}", name, did_you_mean(name, names)));
  return {};
}

Bindings bindings(const std::vector<Tunable>& tunables, const Configuration& configuration) {
  Bindings result;
  for (const Tunable& tunable : tunables) {
    const auto found = configuration.find(tunable.name);
    const TunableValue& value = found == configuration.end() ? tunable.fallback : found->second;
    if (!tunable.categorical()) {
      result[tunable.name] = static_cast<double>(std::get<std::int64_t>(value));
      continue;
    }
    for (std::size_t i = 0; i < tunable.values.size(); ++i) {
      result[tunable.name + "_" + std::get<std::string>(tunable.values[i])] = static_cast<double>(i);
      if (tunable.values[i] == value) result[tunable.name] = static_cast<double>(i);
    }
  }
  return result;
}

std::string to_string(const std::vector<Tunable>& tunables, const Configuration& configuration) {
  std::string text;
  for (const Tunable& tunable : tunables) {
    const auto found = configuration.find(tunable.name);
    const TunableValue& value = found == configuration.end() ? tunable.fallback : found->second;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", tunable.name, to_string(value));
  }
  return text;
}

}  // namespace cultivar

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
