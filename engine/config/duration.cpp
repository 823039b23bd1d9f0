// SPDX-License-Identifier: Apache-2.0
#include "engine/config/duration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace cultivar {

std::optional<double> duration_seconds(std::string_view text) {
  constexpr std::string_view kUnits = "smhd";
  constexpr double kSeconds[] = {1.0, 60.0, 3600.0, 86400.0};
  if (text.empty()) return std::nullopt;
  double total = 0.0;
  for (bool first = true; !text.empty(); first = false) {
    double value = 0.0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    if (error != std::errc() || std::signbit(value) || !std::isfinite(value)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty())
      return first ? std::optional(value) : std::nullopt;  // "1h30": the unit of 30 is missing
    const std::size_t unit = kUnits.find(text.front());
    if (unit == kUnits.npos) return std::nullopt;
    total += value * kSeconds[unit];
    text.remove_prefix(1);
  }
  return std::isfinite(total) ? std::optional(total) : std::nullopt;
}

double read_duration(const YamlNode& node, bool may_be_zero) {
  constexpr double kLongestSeconds = 10 * 366 * 86400.0;
  if (!node.is_scalar()) node.fail("must be one duration; write 90 or 90s, 3m, 2h, 7d or 1h30m");
  const auto seconds = duration_seconds(node.string());
  if (!seconds) node.fail("'" + node.string() + "' is not a duration; write 90 or 90s, 3m, 2h, 7d or 1h30m");
  if (*seconds > kLongestSeconds)
    node.fail("'" + node.string() + "' is longer than ten years; write a shorter duration");
  if (*seconds == 0.0 && !may_be_zero) node.fail("must be greater than 0");
  return *seconds;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole % 86400 / 3600);
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 59.5) {
    const double tenths = std::round(10.0 * std::max(0.0, seconds)) / 10.0;
    return fmt::format("{} s", tenths < 10.0 ? tenths : std::round(seconds));
  }
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const auto two = [&](std::int64_t unit, const char* name, std::int64_t part, const char* part_name) {
    const std::int64_t rest = whole % unit / part;
    return fmt::format("{} {}{}", whole / unit, name,
                       rest == 0 ? "" : fmt::format(" {} {}", rest, part_name));
  };
  return whole < 3600    ? two(60, "min", 1, "s")
         : whole < 86400 ? two(3600, "h", 60, "min")
                         : two(86400, "d", 3600, "h");
}

std::string local_time(double at) {
  const auto whole = static_cast<std::time_t>(at);
  std::tm local{};
  if (!std::isfinite(at) || ::localtime_r(&whole, &local) == nullptr) return "unknown";
  char text[64];
  const std::string moment(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &local));
  const long ahead = local.tm_gmtoff / 60, minutes = std::labs(ahead) % 60;
  if (ahead == 0) return moment;
  return fmt::format("{}{}{}{}", moment, ahead > 0 ? '+' : '-', std::labs(ahead) / 60,
                     minutes == 0 ? "" : fmt::format(":{:02}", minutes));
}

std::string local_minute(double at) {
  return local_time(at).substr(0, std::string_view("2026-11-30 14:05").size());
}

}  // namespace cultivar
