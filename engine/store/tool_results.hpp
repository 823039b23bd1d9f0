// What the tools of agents gave, in the record: a dialogue that is told again, or goes on, does not run them
// again.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/store/record.hpp"
#include "operators/agent/tool_outcome.hpp"

namespace cultivar {

std::string to_body(const ToolOutcome&);
ToolOutcome outcome_of_body(const std::string& body);

// Of one question, by turn; in each, in the order in which they were run. Empty where the record is older.
std::map<std::size_t, std::vector<ToolOutcome>> recorded_results(const Record&, std::int64_t asking);

// For `status --json`: {"check": {"calls", "failed", "device_s"}, ...}; empty: no agent called anything.
nlohmann::json tool_use(const Record&);

}  // namespace cultivar
