// SPDX-License-Identifier: Apache-2.0
// The tools of a coding agent: their descriptions and implementations, used by the operator `agent` and by
// the MCP server. Text from a model is data: it reaches the compiler and the checks only as a variant's
// source.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "operators/agent/bench.hpp"
#include "operators/agent/tool_outcome.hpp"
#include "operators/llm/chat.hpp"

namespace cultivar {

struct AgentTool {
  ToolSpec spec;
  std::string title;
  bool changes_the_run = false;  // false: the tool only reads, compiles or measures
};
// list_lineage, read_variant, diff, read_knowledge, compile, check, benchmark, tune, profile, notes; assembly
// for kernels of the host; and submit and wait, if the bench takes submissions.
std::vector<AgentTool> agent_tools(Target, bool takes_submissions);

struct ToolLimits {
  double call_seconds = 600.0;  // including waiting for the device
  double device_seconds = 0.0;  // summed over all calls; 0: no limit
  std::size_t result_bytes = 48 * 1024;
  std::size_t drafts = 256;  // the oldest drafts are dropped
};

struct ToolResult {
  std::string text;     // at most ToolLimits::result_bytes, with a line that marks an omission
  bool failed = false;  // the call could not be executed; a rejected kernel is a result, not a failure
};

struct ToolSession;

// A conversation with its drafts and device time. Thread-safe: calls that need the device take turns, others
// run concurrently. The bench must outlive it.
class Toolbox {
 public:
  explicit Toolbox(Bench&, ToolLimits = {});
  ~Toolbox();

  const std::vector<AgentTool>& tools() const { return tools_; }
  bool has(const std::string& name) const;
  // Never throws. Returns soon after `stop`.
  ToolResult call(const std::string& name, const nlohmann::json& arguments, std::stop_token stop = {},
                  std::function<void(const std::string&)> progress = {});
  double device_seconds_used() const;

  std::vector<MadeDraft> drafts() const;  // the drafts that are kept, in order of creation
  // Restores a conversation from an earlier session: its drafts, without their results, and its used device
  // time. Only before the first call. A draft that is no longer a valid variant is dropped.
  void restore(const std::vector<MadeDraft>&, double device_seconds);

 private:
  // Tells the bench of new drafts, and the agent of earlier kernels that are nearly like them.
  void tell_others(const std::string& tool, ToolResult&);

  std::vector<AgentTool> tools_;
  std::unique_ptr<ToolSession> session_;
};

}  // namespace cultivar
