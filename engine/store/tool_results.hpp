// SPDX-License-Identifier: Apache-2.0
// The results of agents' tools in the record, so that a replayed or resumed dialogue does not run the tools
// again.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/record.hpp"
#include "engine/store/run_folder.hpp"
#include "evaluators/system/error.hpp"
#include "operators/agent/tool_outcome.hpp"

namespace cultivar {

std::string to_body(const ToolOutcome&);
ToolOutcome outcome_of_body(const std::string& body);

// The results of one question, by turn, in the order in which they ran. Empty for records without this table.
std::map<std::size_t, std::vector<ToolOutcome>> recorded_results(const Record&, std::int64_t asking);

// A draft of a conversation, with the last tool that looked at it.
struct RecordedDraft {
  std::string conversation;  // "q5": the agent of question 5; "m2": an agent outside of the search
  MadeDraft draft;
  std::string origin;        // the first kernel in its chain of bases that is not a draft; empty if none
  std::string tool, result;  // the first line of the tool's result

  std::string id() const { return conversation + "." + draft.id; }
};
// The newest of all conversations, those of the conversation that spoke last first.
std::vector<RecordedDraft> recorded_drafts(const Record&, std::size_t most);
// "q5.d1", "m2.d1"; nullopt if there is none.
std::optional<RecordedDraft> recorded_draft(const Record&, const std::string& id);

// For `status --json`: {"check": {"calls", "failed", "device_s"}, ...}; empty: no agent called a tool.
nlohmann::json tool_use(const Record&);

// What agents outside of a search (`cultivar mcp`) made: a file of each conversation in the run's folder, one
// line of JSON for each call that made drafts or looked at one. The search's own agents are in the record.

// Not thread-safe.
class ConversationLog {
 public:
  explicit ConversationLog(RunFolder folder) : folder_(std::move(folder)) {}

  // The first call makes the file. Fails if it cannot be written, is full, or there are too many.
  Expected<void> add(const std::string& line);
  const std::string& name() const { return name_; }  // "m3"; empty before the first line

 private:
  RunFolder folder_;
  std::string name_;
};

struct ConversationAt {
  std::string name;
  double at = 0.0;  // of its last line, seconds since 1970
};
std::vector<ConversationAt> conversations_in(const RunFolder&);  // in any order
// Its lines; none if there is no such conversation. `name` may be any text.
std::vector<std::string> lines_of_conversation(const RunFolder&, const std::string& name);

}  // namespace cultivar
