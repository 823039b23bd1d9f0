// JSON of others: models, providers, clients. Copying and writing JSON recurses, so what nests deeper than
// any honest text is not even read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace cultivar {

inline constexpr int kForeignJsonDepth = 64;

bool nests_too_deep(std::string_view json, int most = kForeignJsonDepth);
// Discarded (`is_discarded()`): it is no JSON, or nests too deep. Throws nothing.
nlohmann::json foreign_json(std::string_view text, int most = kForeignJsonDepth);

}  // namespace cultivar
