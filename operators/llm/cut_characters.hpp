// SPDX-License-Identifier: Apache-2.0
// Characters that a server cut in two: tokens end inside a character, and some servers send each half in an
// event of its own, as one half of a surrogate pair ("\ud83d") or as bytes that are not UTF-8 alone. JSON
// holds neither, so the bytes of a half are kept as private characters until the pieces are joined.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cultivar {

// As foreign_json(), and also reads text with halves of characters.
nlohmann::json json_with_cut_characters(std::string_view text);

// The text with its halves put together. A half that is alone becomes U+FFFD.
std::string whole_characters(std::string text);
void make_characters_whole(nlohmann::json&);  // in all its strings

}  // namespace cultivar
