// JSON of others: models, providers, clients. Copying and writing JSON recurses, so what nests deeper than
// any honest text is not even read.
#pragma once

#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cultivar {

inline constexpr int kForeignJsonDepth = 64;

bool nests_too_deep(std::string_view json, int most = kForeignJsonDepth);
// Discarded (`is_discarded()`): it is no JSON, or nests too deep. Throws nothing.
nlohmann::json foreign_json(std::string_view text, int most = kForeignJsonDepth);

// Of a text that is no JSON: where it breaks, and what to change: "line 3, byte 17, at `...`: ...". Empty: it
// is JSON.
std::string where_json_breaks(std::string_view text, int most = kForeignJsonDepth);
// What a library of JSON says, without its own name and numbers.
std::string said_shortly(const std::exception&);

}  // namespace cultivar
