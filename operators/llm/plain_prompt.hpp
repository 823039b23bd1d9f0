// SPDX-License-Identifier: Apache-2.0
// A request as one readable text, for programs and people.
#pragma once

#include <string>

#include "operators/llm/chat.hpp"

namespace cultivar {

// The system text, the tools and how to call them as text (tool_text.hpp), then the conversation. A single
// user message has no heading.
std::string plain_prompt(const ChatRequest&);

}  // namespace cultivar
