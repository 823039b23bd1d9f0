// SPDX-License-Identifier: Apache-2.0
// Runs the tool calls of one dialogue of the operator `agent` and returns each result in its recorded form.
#pragma once

#include "engine/search/search_bench.hpp"
#include "operators/agent/toolbox.hpp"
#include "operators/asking_operator.hpp"

namespace cultivar {

// Not thread-safe: one call at a time.
class AgentToolCalls {
 public:
  AgentToolCalls(SearchBench::Where, Pipeline&, const ToolBudget&);
  // nullopt: interrupted because the search is stopping; the call has no result and must be run again.
  std::optional<ToolOutcome> run(const ToolDue&, const std::stop_token&);
  // For a resumed dialogue: restores the result of a call of an earlier session. Call before the first run().
  void remember(const ToolOutcome&);

 private:
  SearchBench bench_;
  Toolbox toolbox_;
};

}  // namespace cultivar
