// SPDX-License-Identifier: Apache-2.0
#include "engine/search/agent_tool_calls.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "operators/prompts/one_line.hpp"

namespace cultivar {

namespace {

// Calls may wait long because the search's jobs share the queues. Results are short because each one becomes
// part of all later requests.
constexpr ToolLimits kLimits{
    .call_seconds = 1800.0, .device_seconds = 0.0, .result_bytes = 24 * 1024, .drafts = 256};

ToolLimits limits_of(const ToolBudget& budget) {
  ToolLimits limits = kLimits;
  limits.device_seconds = budget.device_seconds;
  return limits;
}

}  // namespace

AgentToolCalls::AgentToolCalls(SearchBench::Where where, Pipeline& pipeline, const ToolBudget& budget)
    : bench_(std::move(where), pipeline), toolbox_(bench_, limits_of(budget)) {}

std::optional<ToolOutcome> AgentToolCalls::run(const ToolDue& due, const std::stop_token& stop) {
  ToolOutcome outcome;
  outcome.index = due.index;
  outcome.tool = one_line_of(due.call.name, 60);
  const auto arguments = due.call.parsed();
  if (!arguments) {
    outcome.failed = true;
    outcome.text =
        "The arguments of this call are not a JSON object. Send an object that follows the tool's schema.";
    return outcome;
  }
  const std::vector<MadeDraft> before = toolbox_.drafts();
  const double used_before = toolbox_.device_seconds_used();
  ToolResult result = toolbox_.call(due.call.name, *arguments, stop);
  if (stop.stop_requested() || bench_.interrupted()) return std::nullopt;
  outcome.text = std::move(result.text);
  outcome.failed = result.failed;
  outcome.device_s = std::round(1e3 * (toolbox_.device_seconds_used() - used_before)) / 1e3;
  for (MadeDraft& draft : toolbox_.drafts())
    if (std::ranges::find(before, draft.id, &MadeDraft::id) == before.end())
      outcome.drafts.push_back(std::move(draft));
  outcome.handed_over = bench_.take_handed_over();
  return outcome;
}

void AgentToolCalls::remember(const ToolOutcome& outcome) {
  toolbox_.restore(outcome.drafts, outcome.device_s);
}

}  // namespace cultivar
