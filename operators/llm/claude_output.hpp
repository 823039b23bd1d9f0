// SPDX-License-Identifier: Apache-2.0
// What `claude -p --output-format json` writes to stdout: an object of type `result`, or, by the user's own
// settings, all events as an array or as lines, also among lines that are not JSON.
#pragma once

#include <optional>
#include <string>

#include "operators/llm/chat.hpp"

namespace cultivar {

struct ClaudeOutput {
  bool complete = false;                 // an object of type `result` was found
  bool failed = false;                   // it reports an error
  std::optional<std::string> text = {};  // its answer, or the reason of its failure
  std::string session = {};
  std::optional<Usage> usage = {};  // of the result, otherwise of all messages so far
  std::optional<double> usd = {};   // the highest that any object says
};
ClaudeOutput read_claude_output(const std::string& output);

// Programs that believe that they write to a terminal put codes for colors, the cursor and titles into their
// output.
// The text without the escape sequences of ECMA-48 (CSI, OSC and other strings, single functions).
std::string without_terminal_codes(std::string text);

}  // namespace cultivar
