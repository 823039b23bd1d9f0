// SPDX-License-Identifier: Apache-2.0
#include "engine/store/duel_body.hpp"

#include <fmt/format.h>

#include <cmath>

#include "engine/store/rows.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

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

}  // namespace cultivar
