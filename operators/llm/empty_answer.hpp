// SPDX-License-Identifier: Apache-2.0
// Answers without anything to use, and what to tell the user about them: a repetition would be paid again and
// bring the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "operators/llm/chat.hpp"
#include "operators/llm/model_config.hpp"

namespace cultivar {

bool is_blank(std::string_view text);  // only whitespace; providers reject it in requests
// It has no tool call, and its text is blank.
bool says_nothing(const ChatAnswer&);

// What came instead of text: "it used all 16000 output tokens for reasoning and sent no text". `most`: the
// limit that was sent with the request.
std::string what_came(const ChatAnswer&, std::int64_t most);
// Which settings to change. `asked`: the limit of the question, before the model's own.
std::string remedy_for(const ChatAnswer&, const ModelConfig&, std::int64_t asked);

}  // namespace cultivar
