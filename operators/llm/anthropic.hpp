// SPDX-License-Identifier: Apache-2.0
// Anthropic's Messages protocol: tool use, prompt caching with breakpoints, thinking blocks kept between
// turns.
#pragma once

#include <memory>

#include "operators/llm/http_chat.hpp"

namespace cultivar {

std::unique_ptr<const ChatProtocol> anthropic_protocol();

}  // namespace cultivar
