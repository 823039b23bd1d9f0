// The tools of a coding agent: what a model is told of them, and what a call does. The same for the `agent`
// operator and for the MCP server. Model text is data: it reaches the compiler and the judge as a variant's
// source, and nothing else.
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
  bool changes_the_run = false;  // the others look, build and measure
};
// list_lineage, read_variant, diff, read_knowledge, compile, check, benchmark, profile; and submit, where
// somebody takes submissions.
std::vector<AgentTool> agent_tools(bool takes_submissions);

struct ToolLimits {
  double call_seconds = 600.0;  // waiting for the device included
  double device_seconds = 0.0;  // of all calls together; 0: no limit
  std::size_t result_bytes = 48 * 1024;
  std::size_t drafts = 256;  // the oldest are forgotten
};

struct ToolResult {
  std::string text;     // at most ToolLimits::result_bytes, and a line that says so when something was cut
  bool failed = false;  // the call could not do what was asked; a rejected kernel is an answer, not a failure
};

struct ToolSession;

// A conversation: its drafts, its use of the device. Thread-safe: calls that need the device take turns,
// others are served beside them. The bench must outlive it.
class Toolbox {
 public:
  explicit Toolbox(Bench&, ToolLimits = {});
  ~Toolbox();

  const std::vector<AgentTool>& tools() const { return tools_; }
  bool has(const std::string& name) const;
  // Never throws. After `stop` it comes back soon.
  ToolResult call(const std::string& name, const nlohmann::json& arguments, std::stop_token stop = {},
                  std::function<void(const std::string&)> progress = {});
  double device_seconds_used() const;

  std::vector<MadeDraft> drafts() const;  // those it still knows, in the order in which they were made
  // A conversation that goes on elsewhere: what it had made, without what was found out about it, and what it
  // had used. Only before the first call. A draft that is no variant any more is left out.
  void restore(const std::vector<MadeDraft>&, double device_seconds);

 private:
  std::vector<AgentTool> tools_;
  std::unique_ptr<ToolSession> session_;
};

}  // namespace cultivar
