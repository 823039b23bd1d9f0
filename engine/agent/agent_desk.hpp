// One dialogue of the operator `agent`: its bench and its tools, and a call of them as the record keeps it.
#pragma once

#include "engine/agent/search_bench.hpp"
#include "operators/agent/toolbox.hpp"
#include "operators/dialogue.hpp"

namespace cultivar {

// Not thread-safe: one call at a time.
class AgentDesk {
 public:
  AgentDesk(SearchBench::Where, Pipeline&, const AgentBudget&);
  // nullopt: interrupted, because the search stops; it means nothing, and is to be run again.
  std::optional<ToolOutcome> run(const ToolDue&, const std::stop_token&);
  // A dialogue that goes on: what a call of an earlier session gave. Before the first run().
  void remember(const ToolOutcome&);

 private:
  SearchBench bench_;
  Toolbox toolbox_;
};

}  // namespace cultivar
