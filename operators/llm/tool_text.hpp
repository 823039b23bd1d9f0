// Tools for models that have no protocol for them: people, programs, small models. What a request's tools are
// and how an answer calls them, as text.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "operators/llm/chat.hpp"

namespace cultivar {

// Each tool with its schema, and how it is called. Empty for a request without tools.
std::string tools_as_text(const ChatRequest&);

// Does the text call a tool, or try to? That is: has it a line that opens a block of kind `tool`, outside of
// other blocks?
bool calls_tools_in_text(const std::string& text);

// The calls of an answer, in order:
//
//   ```tool
//   {"tool": "check", "arguments": {"variant": "12"}}
//   ```
//   <<<<<<< SEARCH
//   ...
//
// SEARCH/REPLACE blocks below a call (up to the next call) become its argument `edit`, a fenced block its
// argument `source`; other words there are the model's own. Strict: an Error says, in words for the author,
// what is wrong and on which line. Calls are named call_1, call_2, ...
tl::expected<std::vector<ToolCall>, std::string> tool_calls_in_text(const std::string& text,
                                                                    const std::vector<ToolSpec>& tools);

// The text up to where the block of that call opens (0: the first); all of it, if there are fewer.
std::string text_before_call(const std::string& text, std::size_t index);

}  // namespace cultivar
