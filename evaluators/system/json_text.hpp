// SPDX-License-Identifier: Apache-2.0
// JSON as text: written whatever bytes are in it, and read from other parties.
#pragma once

#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cultivar {

// On one line, or indented. Bytes that are not UTF-8 are replaced: JSON does not hold them.
std::string json_text(const nlohmann::json&, int indent = -1);

// From other parties: models, providers, clients. Copying and writing JSON is recursive, so text that is
// nested too deeply is rejected before parsing.
inline constexpr int kForeignJsonDepth = 64;

bool nests_too_deep(std::string_view json, int most = kForeignJsonDepth);
// Returns a discarded value (`is_discarded()`) if the text is not JSON or is nested too deeply. Does not
// throw.
nlohmann::json foreign_json(std::string_view text, int most = kForeignJsonDepth);

// For text that is not JSON: where the error is and what to change: "line 3, byte 17, at `...`: ...". Empty
// if it is JSON.
std::string where_json_breaks(std::string_view text, int most = kForeignJsonDepth);
// The message of a JSON library's exception, without the library's name and error numbers.
std::string said_shortly(const std::exception&);

}  // namespace cultivar
