// SPDX-License-Identifier: Apache-2.0
// What is wrong with a provider's response: its errors as kinds of ChatError, and answers without anything to
// use. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operators/llm/chat.hpp"
#include "operators/llm/chat_model.hpp"

namespace cultivar {

// For a status other than 2xx, with its body: {"error": {"type", "code", "message"}}, as in all protocols
// here, or any other text.
ChatError error_of_status(int status, std::string_view body, const std::string& location = {});
// For an error object within a stream, or instead of an answer: it is `before_work`.
ChatError error_of_object(const nlohmann::json& error);

// What was sent: the model's name in the configuration, the fields of the body, and the text that the model
// reads.
struct SentBody {
  std::string model;
  std::vector<std::string> fields;
  std::size_t prompt_bytes = 0;
};
// For the body of a response that rejects one field of the request: how to rename it or leave it out. Empty
// if it names none.
std::string remedy_for_field(std::string_view body, const SentBody&);

// Seconds from `unix_now`, from a number or an HTTP date. nullopt: neither, or more than a minute in the
// past.
std::optional<double> retry_after_seconds(const std::string& header, double unix_now);

// One line of at most `most` bytes, for a message.
std::string one_line(std::string_view text, std::size_t most = 400);

// Answers without anything to use, and what to tell the user about them: a repetition would be paid again and
// bring the same.
bool is_blank(std::string_view text);  // only whitespace; providers reject it in requests
// It has no tool call, and its text is blank.
bool says_nothing(const ChatAnswer&);

// What came instead of text: "it used all 16000 output tokens for reasoning and sent no text". `most`: the
// limit that was sent with the request.
std::string what_came(const ChatAnswer&, std::int64_t most);
// Which settings to change. `asked`: the limit of the question, before the model's own.
std::string remedy_for(const ChatAnswer&, const ModelConfig&, std::int64_t asked);

}  // namespace cultivar
