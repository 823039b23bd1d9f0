// SPDX-License-Identifier: Apache-2.0
// Maps providers' error responses to kinds of ChatError. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operators/llm/chat.hpp"

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

}  // namespace cultivar
