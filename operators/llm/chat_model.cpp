// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/chat_model.hpp"

#include <algorithm>

namespace cultivar {

ChatRequest fitted(const ModelConfig& model, ChatRequest request) {
  if (request.effort == Effort::unset) request.effort = model.effort;
  if (!request.temperature) request.temperature = model.temperature;
  if (model.max_output_tokens > 0)
    request.max_output_tokens = std::min(request.max_output_tokens, model.max_output_tokens);
  return request;
}

Usage most_of(const ChatRequest& request, double tokens_per_byte) {
  Usage usage;
  usage.estimated = true;
  usage.input = static_cast<std::int64_t>(tokens_per_byte * static_cast<double>(bytes_of(request))) + 64;
  usage.output = request.max_output_tokens;
  return usage;
}

}  // namespace cultivar
