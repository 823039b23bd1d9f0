// SPDX-License-Identifier: Apache-2.0
#include "engine/store/decision_kind.hpp"

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/store/rows.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr std::array<std::string_view, 16> kDecisionNames = {
    "session",   "ask",  "give_up", "direct", "propose", "put_off", "judge",     "migrate",
    "challenge", "duel", "confirm", "pace",   "promote", "expel",   "intervene", "outcome"};
static_assert(kDecisionNames.size() == static_cast<std::size_t>(DecisionKind::outcome) + 1);

}  // namespace

std::string_view name_of(DecisionKind kind) {
  return kDecisionNames.at(static_cast<std::size_t>(kind));
}

std::optional<DecisionKind> decision_named(std::string_view name) {
  const auto* const found = std::find(kDecisionNames.begin(), kDecisionNames.end(), name);
  if (found == kDecisionNames.end()) return std::nullopt;
  return static_cast<DecisionKind>(found - kDecisionNames.begin());
}

namespace {

json to_json(const SpeedRatio& ratio) {
  const auto bound = [](double value) { return std::isfinite(value) ? json(value) : json(); };
  return {ratio.log_ratio, bound(ratio.lower), bound(ratio.upper)};
}

SpeedRatio ratio_of(const json& body) {
  SpeedRatio ratio;
  ratio.log_ratio = body.at(0).get<double>();
  constexpr double kMost = 100.0;  // a factor of 1e43
  if (!(std::fabs(ratio.log_ratio) < kMost))
    throw std::runtime_error("the record has a duel with an impossible ratio of speeds");
  if (!body.at(1).is_null()) ratio.lower = body.at(1).get<double>();
  if (!body.at(2).is_null()) ratio.upper = body.at(2).get<double>();
  return ratio;
}

}  // namespace

std::string to_body(const DuelBody& duel) {
  json body{{"verdict", name_of(duel.verdict)}, {"open", duel.may_go_on}};
  if (duel.result) {
    body["ratio"] = to_json(duel.result->all);
    body["workloads"] = json::array();
    for (const SpeedRatio& ratio : duel.result->workloads) body["workloads"].push_back(to_json(ratio));
  }
  return json_text(body);
}

DuelBody duel_body(const std::string& text) {
  if (text == "open") return {.may_go_on = true};
  const json body = text.starts_with('{') ? json_in(text) : json{{"verdict", text}, {"open", false}};
  const auto verdict = verdict_named(body.at("verdict").get<std::string>());
  if (!verdict) throw std::runtime_error(fmt::format("the record has a duel with the verdict '{}'", text));
  DuelBody duel{*verdict, body.at("open").get<bool>()};
  if (const auto ratio = body.find("ratio"); ratio != body.end()) {
    duel.result = DuelResult{0, *verdict, ratio_of(*ratio), {}};
    for (const json& workload : body.at("workloads")) duel.result->workloads.push_back(ratio_of(workload));
  }
  return duel;
}

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
