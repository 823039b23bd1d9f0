// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

bool numeric(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) ||
                           ((cell[0] == '-' || cell[0] == '+') && cell.size() > 1 &&
                            std::isdigit(static_cast<unsigned char>(cell[1]))));
}

// The display width of a text: the number of bytes that do not continue a UTF-8 character.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Write errors on stdout are checked once, when the command has ended (commands.cpp).
void write(std::FILE* file, const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), file);
}

}  // namespace

std::size_t terminal_width() {
  constexpr unsigned short kUsual = 80, kLeast = 40;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= kLeast ? size.ws_col : kUsual;
}

void Output::facts(const nlohmann::json& value) const {
  if (json_) write(stdout, json_text(value, 2) + "\n");
}

void Output::line(const std::string& words) const {
  write(text(), utf8_text(words) + "\n");
}

std::string Table::text(const std::string& indent) const {
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (std::size_t r = 0; r < rows_.size(); ++r)
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      if (widths.size() <= c) {
        widths.push_back(0);
        right.push_back(true);
      }
      widths[c] = std::max(widths[c], width(rows_[r][c]));
      if (r > 0 && !rows_[r][c].empty() && !numeric(rows_[r][c])) right[c] = false;
    }
  std::string out;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - width(row[c]), ' ');
      line += (c ? "  " : "") + (right[c] ? gap + row[c] : row[c] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string short_id(const std::string& id) {
  return id.substr(0, 12);
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole / 3600 % 24);
}

std::string time_of(double us) {
  if (us < 1e3) return fmt::format("{:.1f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1e3);
  return fmt::format("{:.2f} s", us / 1e6);
}

std::string bytes_of(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, bytes < 10 && unit > 0 ? 1 : 0, units[unit]);
}

std::string ratio_of(double ratio) {
  if (!std::isfinite(ratio)) return "-";
  return fmt::format("{:.{}f}x", ratio,
                     ratio >= 100                  ? 0
                     : ratio >= 10                 ? 1
                     : ratio >= 1.1 || ratio < 0.9 ? 2
                                                   : 3);
}

}  // namespace cultivar
