// Anthropic's Messages: tool use, prompt caching by breakpoints, thinking that is carried between turns.
#pragma once

#include <memory>

#include "operators/llm/http_chat.hpp"

namespace cultivar {

std::unique_ptr<const ChatProtocol> anthropic_protocol();

}  // namespace cultivar
