// SPDX-License-Identifier: Apache-2.0
// What agents outside of a search (`cultivar mcp`) made: a file of each conversation in the run's folder, one
// line of JSON for each call that made drafts or looked at one. The search's own agents are in the record.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/store/run_folder.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

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
