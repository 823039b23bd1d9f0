// A request as one readable text, for those who are no API: programs and people.
#pragma once

#include <string>

#include "operators/llm/chat.hpp"

namespace cultivar {

// The system's words, the tools and how to call them in text (tool_text.hpp), then the conversation. A single
// user message stands without a heading.
std::string plain_prompt(const ChatRequest&);

}  // namespace cultivar
