// SPDX-License-Identifier: Apache-2.0
// Durations and points in time as people write and read them.
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
std::string duration_text(double seconds);  // as a configuration takes it: "1h30m"

// For people, everywhere: "9.5 s", "42 s", "3 min 10 s", "2 h 5 min", "3 d".
std::string duration(double seconds);
// Of seconds since 1970, in this machine's time zone: "2026-11-30 14:05:10 UTC+1".
std::string local_time(double at);
std::string local_minute(double at);  // "2026-11-30 14:05"

}  // namespace cultivar
