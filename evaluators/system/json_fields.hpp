// SPDX-License-Identifier: Apache-2.0
// JSON of plain structs by one list of their fields, for source files. nlohmann's own macros define inline
// functions; these define those that a header declares, so that few files see <nlohmann/json.hpp>.
#pragma once

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

// to_json and from_json. Every field must be there when it is read.
#define CULTIVAR_JSON(Type, ...)                                                 \
  void to_json(nlohmann::json& nlohmann_json_j, const Type& nlohmann_json_t) {   \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__))     \
  }                                                                              \
  void from_json(const nlohmann::json& nlohmann_json_j, Type& nlohmann_json_t) { \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM, __VA_ARGS__))   \
  }

// The same for some of the fields, where others need more than a name: write_fields and read_fields.
#define CULTIVAR_JSON_PART(Type, ...)                                                                       \
  [[maybe_unused]] static void write_fields(nlohmann::json& nlohmann_json_j, const Type& nlohmann_json_t) { \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__))                                \
  }                                                                                                         \
  [[maybe_unused]] static void read_fields(const nlohmann::json& nlohmann_json_j, Type& nlohmann_json_t) {  \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM, __VA_ARGS__))                              \
  }

// An enum whose values are 0, 1, ... by their names. NLOHMANN_JSON_SERIALIZE_ENUM takes an unknown name for
// the first; this throws.
#define CULTIVAR_JSON_ENUM(Enum, ...)                                                   \
  inline void to_json(nlohmann::json& nlohmann_json_j, const Enum& value) {             \
    nlohmann_json_j = std::array{__VA_ARGS__}.at(static_cast<std::size_t>(value));      \
  }                                                                                     \
  inline void from_json(const nlohmann::json& nlohmann_json_j, Enum& value) {           \
    value = static_cast<Enum>(cultivar::index_of_name(nlohmann_json_j, {__VA_ARGS__})); \
  }

namespace cultivar {

inline std::size_t index_of_name(const nlohmann::json& json, std::initializer_list<std::string_view> names) {
  const auto found = std::ranges::find(names, json.get_ref<const std::string&>());
  if (found == names.end())
    throw nlohmann::json::other_error::create(501, "unknown name " + json.dump(), &json);
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace cultivar

template <class T>
requires(!std::is_same_v<T, nlohmann::json>) struct nlohmann::adl_serializer<
    std::optional<T>> {  // null: there is none
  static void to_json(json& j, const std::optional<T>& value) { value ? j = *value : j = nullptr; }
  static void from_json(const json& j, std::optional<T>& value) {
    value = j.is_null() ? std::nullopt : std::optional(j.get<T>());
  }
};
