// SPDX-License-Identifier: Apache-2.0
// The supervisor's interventions in a record: their decisions, and what became of them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/record.hpp"
#include "operators/supervisor/supervisor.hpp"

namespace cultivar {

// The bodies of the decisions `intervene` and `outcome`.
nlohmann::json to_json(const Intervention&);
nlohmann::json to_json(const InterventionResult&);
Intervention intervention_in(const std::string& body);  // throws std::runtime_error
InterventionResult result_in(const std::string& body);  // throws nlohmann::json::exception

std::string text_of(const Intervention&);  // "no promotion during 40 evaluations: other parents"
std::string text_of(const InterventionResult&);

// What `status` shows: how many there were, the current one, and the last one with its result.
nlohmann::json supervisor_status(const Intervention& current);
nlohmann::json supervisor_status(const Intervention& last, const InterventionResult&);

struct InterventionRow {
  Intervention intervention;
  double at_s = 0.0;                         // of search time
  std::optional<InterventionResult> result;  // nullopt: not ended
  std::vector<IndividualId> promoted;        // of the individuals that it led to, also later
};
std::vector<InterventionRow> interventions_of(const Record&);  // in order

}  // namespace cultivar
