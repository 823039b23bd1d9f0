// SPDX-License-Identifier: Apache-2.0
// The first frame of a worker, by which the engine knows that both speak the same protocol.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "evaluators/system/error.hpp"

namespace cultivar {

inline constexpr int protocol_version = 6;

// {"cultivar": version, "worker": name}.
nlohmann::json hello(std::string_view worker);
// An Error names both versions.
Expected<void> check_hello(const nlohmann::json&, std::string_view worker);

}  // namespace cultivar
