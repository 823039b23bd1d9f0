// OpenAI's Responses. Nothing is kept at the provider (store: false): reasoning travels with the
// conversation, encrypted.
#pragma once

#include <memory>

#include "operators/llm/http_chat.hpp"

namespace cultivar {

std::unique_ptr<const ChatProtocol> openai_responses_protocol();

}  // namespace cultivar
