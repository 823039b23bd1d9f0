// SPDX-License-Identifier: Apache-2.0
// Maps providers' error responses to kinds of ChatError. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "operators/llm/chat.hpp"

namespace cultivar {

// For a status other than 2xx, with its body: {"error": {"type", "code", "message"}}, as in all protocols
// here, or any other text.
ChatError error_of_status(int status, std::string_view body, const std::string& location = {});
// For an error object within a stream.
ChatError error_of_object(const nlohmann::json& error);

// Seconds from `unix_now`, from a number or an HTTP date. nullopt: neither, or more than a minute in the
// past.
std::optional<double> retry_after_seconds(const std::string& header, double unix_now);

// One line of at most `most` bytes, for a message.
std::string one_line(std::string_view text, std::size_t most = 400);

}  // namespace cultivar
