// OpenAI's Chat Completions, as OpenAI, vLLM, llama.cpp, SGLang, Ollama, LiteLLM and others serve it.
#pragma once

#include <memory>

#include "operators/llm/http_chat.hpp"

namespace cultivar {

std::unique_ptr<const ChatProtocol> openai_protocol();

}  // namespace cultivar
