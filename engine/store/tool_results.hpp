// The results of agents' tools in the record, so that a replayed or resumed dialogue does not run the tools
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

// The results of one question, by turn, in the order in which they ran. Empty for records without this table.
std::map<std::size_t, std::vector<ToolOutcome>> recorded_results(const Record&, std::int64_t asking);

// For `status --json`: {"check": {"calls", "failed", "device_s"}, ...}; empty: no agent called a tool.
nlohmann::json tool_use(const Record&);

}  // namespace cultivar
