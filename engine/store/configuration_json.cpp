#include "engine/store/configuration_json.hpp"

namespace cultivar {

nlohmann::json configuration_to_json(const Configuration& configuration) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : configuration) std::visit([&](const auto& v) { json[name] = v; }, value);
  return json;
}

Configuration configuration_from_json(const nlohmann::json& json) {
  Configuration configuration;
  for (const auto& [name, value] : json.items()) {
    if (value.is_string())
      configuration.emplace(name, value.get<std::string>());
    else
      configuration.emplace(name, value.get<std::int64_t>());
  }
  return configuration;
}

}  // namespace cultivar
