// SPDX-License-Identifier: Apache-2.0
#include "operators/agent/tool_arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "evaluators/system/json_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

// A value shortened for use in a sentence.
std::string shown(const json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  std::string text = json_text(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...\"";
  return text;
}

bool is_of(const json& value, const std::string& type) {
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  return value.is_object();
}

std::optional<std::string> wrong_value(const json& schema, const json& value, const std::string& name) {
  const auto type = schema.find("type");
  if (type != schema.end()) {
    const std::vector<std::string> types =
        type->is_array() ? type->get<std::vector<std::string>>() : std::vector{type->get<std::string>()};
    bool fits = false;
    for (const std::string& each : types) fits = fits || is_of(value, each);
    if (!fits)
      return fmt::format("`{}` must be of type {}, but is {}", name, fmt::join(types, " or "), shown(value));
  }
  if (const auto allowed = schema.find("enum"); allowed != schema.end()) {
    bool known = false;
    std::vector<std::string> names;
    for (const json& each : *allowed) {
      known = known || each == value;
      names.push_back(each.get<std::string>());
    }
    if (!known)
      return fmt::format("`{}` is {}, but must be one of: {}", name, shown(value), fmt::join(names, ", "));
  }
  if (value.is_number()) {
    if (schema.contains("minimum") && value < schema["minimum"])
      return fmt::format("`{}` is {}, but must be at least {}", name, shown(value), schema["minimum"].dump());
    if (schema.contains("maximum") && value > schema["maximum"])
      return fmt::format("`{}` is {}, but must be at most {}", name, shown(value), schema["maximum"].dump());
  }
  if (value.is_string() && schema.contains("maxLength") &&
      value.get_ref<const std::string&>().size() > schema["maxLength"].get<std::size_t>())
    return fmt::format("`{}` has {} bytes, but at most {} are allowed", name,
                       value.get_ref<const std::string&>().size(), schema["maxLength"].dump());
  if (value.is_array()) {
    if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<std::size_t>())
      return fmt::format("`{}` has {} items, but at most {} are allowed", name, value.size(),
                         schema["maxItems"].dump());
    if (schema.contains("items"))
      for (const json& item : value)
        if (auto wrong = wrong_value(schema["items"], item, name + "[]")) return wrong;
  }
  if (value.is_object() && schema.contains("additionalProperties"))
    for (const auto& [key, item] : value.items())
      if (auto wrong = wrong_value(schema["additionalProperties"], item, name + "." + key.substr(0, 60)))
        return wrong;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> wrong_arguments(const json& schema, const json& arguments) {
  if (!arguments.is_object())
    return fmt::format("the arguments must be an object, but are {}", shown(arguments));
  const json& properties = schema.at("properties");
  std::vector<std::string> known;
  for (const auto& [name, _] : properties.items()) known.push_back(name);
  for (const auto& [name, value] : arguments.items()) {
    const auto property = properties.find(name);
    if (property == properties.end())
      return fmt::format("there is no argument `{}`{}", name.substr(0, 60),
                         did_you_mean(name.substr(0, 60), known));
    if (auto wrong = wrong_value(*property, value, name)) return wrong;
  }
  if (schema.contains("required"))
    for (const json& name : schema["required"])
      if (!arguments.contains(name.get<std::string>()))
        return fmt::format("the argument `{}` is missing", name.get<std::string>());
  return std::nullopt;
}

}  // namespace cultivar
