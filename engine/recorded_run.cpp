#include "engine/recorded_run.hpp"

#include <nlohmann/json.hpp>

namespace cultivar {

Facts facts_in(const nlohmann::json& environment) {
  Facts facts;
  const nlohmann::json& devices = environment.at("devices");
  if (devices.empty()) return facts;
  for (const auto& [name, value] : devices.front().at("facts").items()) facts[name] = value.get<double>();
  return facts;
}

Config recorded_config(const std::string& yaml, const RunFolder& folder,
                       const std::vector<std::string>& overrides, const Surface& surface) {
  return parse_config(yaml, folder.database().string(), folder.path(), overrides, surface.installation);
}

}  // namespace cultivar
