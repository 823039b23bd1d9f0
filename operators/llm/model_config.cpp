#include "operators/llm/model_config.hpp"

#include <algorithm>

namespace cultivar {

ChatRequest fitted(const ModelConfig& model, ChatRequest request) {
  if (request.effort == Effort::unset) request.effort = model.effort;
  if (!request.temperature) request.temperature = model.temperature;
  if (model.max_output_tokens > 0)
    request.max_output_tokens = std::min(request.max_output_tokens, model.max_output_tokens);
  return request;
}

Usage most_of(const ChatRequest& request) {
  Usage usage;
  usage.estimated = true;
  usage.input = static_cast<std::int64_t>(bytes_of(request) / 2) + 64;
  usage.output = request.max_output_tokens;
  return usage;
}

}  // namespace cultivar
