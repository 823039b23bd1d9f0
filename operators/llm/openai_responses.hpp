// SPDX-License-Identifier: Apache-2.0
// OpenAI's Responses protocol. Nothing is stored at the provider (store: false): encrypted reasoning is sent
// with the conversation.
#pragma once

#include <memory>

#include "operators/llm/http_chat.hpp"

namespace cultivar {

std::unique_ptr<const ChatProtocol> openai_responses_protocol();

}  // namespace cultivar
