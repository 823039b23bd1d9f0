// What providers say when they refuse, as kinds of ChatError. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "operators/llm/chat.hpp"

namespace cultivar {

// Of a status other than 2xx, with the body that came with it: {"error": {"type", "code", "message"}}, as
// all protocols here write it, or anything else.
ChatError error_of_status(int status, std::string_view body, const std::string& location = {});
// Of an error object in the middle of a stream.
ChatError error_of_object(const nlohmann::json& error);

// Seconds from `unix_now` on: a number, or an HTTP date. nullopt: neither, or in the past by more than a
// minute.
std::optional<double> retry_after_seconds(const std::string& header, double unix_now);

// One line of at most `most` bytes, for a message.
std::string one_line(std::string_view text, std::size_t most = 400);

}  // namespace cultivar
