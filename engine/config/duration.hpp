// SPDX-License-Identifier: Apache-2.0
// Durations as people write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

// "90s", "3m", "2h", "7d", "1h30m" or a plain number of seconds.
std::optional<double> duration_seconds(std::string_view text);
// Above 0 unless `may_be_zero`, ten years at most; anything else is an InputError.
double read_duration(const YamlNode&, bool may_be_zero = false);
std::string duration_text(double seconds);

}  // namespace cultivar
