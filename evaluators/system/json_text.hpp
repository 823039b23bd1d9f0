// SPDX-License-Identifier: Apache-2.0
// JSON as text, whatever bytes are in it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cultivar {

// On one line, or indented. Bytes that are not UTF-8 are replaced: JSON does not hold them.
std::string json_text(const nlohmann::json&, int indent = -1);

}  // namespace cultivar
