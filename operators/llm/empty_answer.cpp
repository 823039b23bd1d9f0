// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/empty_answer.hpp"

#include <fmt/format.h>

namespace cultivar {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

bool says_nothing(const ChatAnswer& answer) {
  return answer.tool_calls.empty() && is_blank(answer.text);
}

std::string what_came(const ChatAnswer& answer, std::int64_t most) {
  if (answer.from_reasoning)
    return fmt::format("it sent {} bytes of reasoning and no text after it", answer.text.size());
  const bool reasoned = answer.usage.reasoning > 0 || answer.reasoning_bytes > 0;
  if (answer.stop == StopReason::length)
    return fmt::format("it used all {} output tokens{} and sent no text", most,
                       reasoned ? " for reasoning" : "");
  return fmt::format("it sent {}{}", reasoned ? "reasoning and " : "",
                     answer.text.empty() ? "no text" : "nothing but white space as text");
}

std::string remedy_for(const ChatAnswer& answer, const ModelConfig& model, std::int64_t asked) {
  const bool own = model.max_output_tokens > 0 && model.max_output_tokens < asked;
  std::string words =
      own ? fmt::format("raise models.{}.max_output_tokens (now {})", model.name, model.max_output_tokens)
          : fmt::format("raise asking.output_tokens (now {})", asked);
  words += fmt::format(", or set a lower models.{}.effort", model.name);
  if (model.effort != Effort::unset) words += fmt::format(" (now {})", name_of(model.effort));
  if (answer.stop != StopReason::length)
    words +=
        "; if that does not help, check the server's chat template and reasoning parser, or name another "
        "model";
  return words;
}

}  // namespace cultivar
