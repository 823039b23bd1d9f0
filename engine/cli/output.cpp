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

std::size_t terminal_rows() {
  constexpr unsigned short kUsual = 24;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kUsual;
}

void Output::facts(const nlohmann::json& value) const {
  if (json_) write(stdout, json_text(value, 2) + "\n");
}

std::size_t columns_of(std::string_view text) {  // bytes that do not continue a UTF-8 character
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::size_t columns_of(std::FILE* file) {
  constexpr unsigned short kLeast = 40;
  winsize size{};
  if (::isatty(::fileno(file)) != 1) return std::string::npos;
  return ::ioctl(::fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col >= kLeast ? size.ws_col
                                                                                  : terminal_width();
}

namespace {

// The byte behind as many characters.
std::size_t byte_after(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && columns-- == 0) break;
  return at;
}

// Below the words of "  key      words".
std::string below(std::string_view line) {
  constexpr std::size_t kMost = 20;
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", begin);
  const std::size_t words = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  return std::string(words < kMost ? words : std::min(begin + 2, kMost), ' ');
}

}  // namespace

std::string between_words(const std::string& text, std::size_t columns) {
  constexpr std::string_view mark = " ...";
  if (columns_of(text) <= columns) return text;
  const std::size_t most = byte_after(text, columns > mark.size() ? columns - mark.size() : 0);
  const std::size_t space = text.rfind(' ', most);
  return text.substr(0, space == std::string::npos || space == 0 ? most : space) + std::string(mark);
}

std::string wrapped(std::string_view text, std::size_t columns, const std::string& hang) {
  std::string result;
  for (bool first = true; first || !text.empty(); first = false) {
    if (!first) result += "\n" + hang;
    const std::size_t room =
        std::max<std::size_t>(10, columns - (first ? 0 : std::min(columns, columns_of(hang))));
    if (columns_of(text) <= room) return result.append(text);
    const std::size_t indent = first ? std::min(text.find_first_not_of(' '), text.size()) : 0;
    std::size_t end = text.rfind(' ', byte_after(text, room));
    if (end == std::string_view::npos || end <= indent) end = text.find(' ', byte_after(text, room));
    if (end == std::string_view::npos) return result.append(text);
    result += text.substr(0, text.find_last_not_of(' ', end) + 1);
    text.remove_prefix(std::min(text.find_first_not_of(' ', end), text.size()));
  }
  return result;
}

void Output::line(const std::string& words) const {
  const std::string shown = utf8_text(words);
  const std::size_t columns = columns_of(text());
  if (columns == std::string::npos) return write(text(), shown + "\n");
  for (std::size_t from = 0; from <= shown.size();) {
    const std::size_t end = std::min(shown.find('\n', from), shown.size());
    const std::string one = shown.substr(from, end - from);
    write(text(), wrapped(one, columns, below(one)) + "\n");
    from = end + 1;
  }
}

void Output::line(const std::string& words, const std::string& hang) const {
  const std::string shown = utf8_text(words);
  const std::size_t columns = columns_of(text());
  write(text(), (columns == std::string::npos ? shown : wrapped(shown, columns, hang)) + "\n");
}

std::string Table::text(const std::string& indent, std::size_t columns) const {
  constexpr std::size_t kGap = 2, kNarrow = 12;  // a column of words gets no narrower
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (std::size_t r = 0; r < rows_.size(); ++r)
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      if (widths.size() <= c) {
        widths.push_back(0);
        right.push_back(true);
      }
      widths[c] = std::max(widths[c], columns_of(rows_[r][c]));
      if (r > 0 && !rows_[r][c].empty() && !numeric(rows_[r][c])) right[c] = false;
    }
  std::size_t all = indent.size();
  for (const std::size_t each : widths) all += each + kGap;
  for (all -= widths.empty() ? 0 : kGap; columns != std::string::npos && all > columns;) {
    std::size_t widest = widths.size();  // of those with spaces at which to break
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const bool words = std::ranges::any_of(
          rows_, [&](const auto& row) { return c < row.size() && row[c].find(' ') != std::string::npos; });
      if (words && widths[c] > kNarrow && (widest == widths.size() || widths[c] > widths[widest])) widest = c;
    }
    if (widest == widths.size()) break;
    --widths[widest];
    --all;
  }
  std::string out;
  for (const auto& row : rows_) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t c = 0; c < row.size(); ++c) {
      auto& lines = cells.emplace_back();
      const std::string cell = columns_of(row[c]) > widths[c] ? wrapped(row[c], widths[c], "") : row[c];
      for (std::size_t from = 0; from <= cell.size();) {
        const std::size_t end = std::min(cell.find('\n', from), cell.size());
        lines.push_back(cell.substr(from, end - from));
        from = end + 1;
      }
      height = std::max(height, lines.size());
    }
    for (std::size_t k = 0; k < height; ++k) {
      std::string line = indent;
      for (std::size_t c = 0; c < cells.size(); ++c) {
        const std::string cell = k < cells[c].size() ? cells[c][k] : "";
        const std::string gap(widths[c] - std::min(widths[c], columns_of(cell)), ' ');
        line += (c ? "  " : "") + (right[c] ? gap + cell : cell + gap);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
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
