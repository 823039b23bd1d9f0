// SPDX-License-Identifier: Apache-2.0
// OpenAI's Chat Completions protocol, served by OpenAI, vLLM, llama.cpp, SGLang, Ollama, LiteLLM and others.
#pragma once

#include <memory>

#include "operators/llm/http_chat.hpp"

namespace cultivar {

std::unique_ptr<const ChatProtocol> openai_protocol();

}  // namespace cultivar
