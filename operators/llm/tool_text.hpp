// SPDX-License-Identifier: Apache-2.0
// Requests and tool calls as text, for models without a protocol for them: people, programs, small models.
// Describes a request's tools and parses the calls in an answer.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "operators/llm/chat.hpp"

namespace cultivar {

// Describes each tool with its schema, and how to call it. Empty for a request without tools.
std::string tools_as_text(const ChatRequest&);

// The calls of an answer, in order:
//
//   ```tool
//   {"tool": "check", "arguments": {"variant": "12"}}
//   ```
//   <<<<<<< SEARCH
//   ...
//
// SEARCH/REPLACE blocks below a call (up to the next call) become its argument `edit`, a fenced block its
// argument `source`; other text is ignored. Strict: an Error's message tells the author what is wrong and on
// which line. Calls are named call_1, call_2, ...
tl::expected<std::vector<ToolCall>, std::string> tool_calls_in_text(const std::string& text,
                                                                    const std::vector<ToolSpec>& tools);

// The text before the block of that call (0: the first); all of it if there are fewer calls.
std::string text_before_call(const std::string& text, std::size_t index);

// A request as one readable text, for programs and people.

// The system text, the tools and how to call them as text (tool_text.hpp), then the conversation. A single
// user message has no heading.
std::string plain_prompt(const ChatRequest&);

}  // namespace cultivar
