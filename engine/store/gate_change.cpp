// SPDX-License-Identifier: Apache-2.0
#include "engine/store/gate_change.hpp"

#include <SQLiteCpp/Database.h>
#include <nlohmann/json.hpp>

#include "engine/store/rows.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

std::string session_body(const std::string& what, const GateChange& change) {
  return json_text({{"what", what}, {"gate_before", change.before}, {"gate", change.now}});
}

std::optional<GateChange> gate_change(const std::string& body) {
  if (!body.starts_with('{')) return std::nullopt;
  const json change = json::parse(body);
  return GateChange{change.at("gate_before").get<GateOptions>(), change.at("gate").get<GateOptions>()};
}

std::optional<GateOptions> first_gate(SQLite::Database& db) {
  SQLite::Statement query(
      db, "SELECT body FROM decisions WHERE kind = 'session' AND body LIKE '{%' ORDER BY seq");
  if (!query.executeStep()) return std::nullopt;
  const auto change = gate_change(column<std::string>(query, 0));
  return change ? std::optional(change->before) : std::nullopt;
}

}  // namespace cultivar
