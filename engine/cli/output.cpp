// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/output.hpp"

#include <nlohmann/json.hpp>

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>

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

bool redraws(std::FILE* file) {
  const char* const kind = std::getenv("TERM");
  return ::isatty(::fileno(file)) == 1 && kind && *kind && std::string_view(kind) != "dumb";
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

std::vector<std::string> lines_in(std::string_view text) {  // without a last one that is empty
  std::vector<std::string> lines;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    lines.emplace_back(text.substr(from, end - from));
    from = end + 1;
  }
  return lines;
}

// Below the words of "  key      words".
std::string below(std::string_view line) {
  constexpr std::size_t kMost = 20;
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", begin);
  const std::size_t words = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  return std::string(words < kMost ? words : std::min(begin + 2, kMost), ' ');
}

// Lines that are too long, broken at spaces.
std::string broken(const std::string& text, std::size_t columns) {
  if (columns == std::string::npos) return text;
  std::string result;
  for (const std::string& line : lines_in(text)) result += wrapped(line, columns, below(line)) + "\n";
  if (!text.ends_with('\n') && !result.empty()) result.pop_back();
  return result;
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
    std::size_t room = std::max<std::size_t>(1, columns);
    if (!first) {
      const std::size_t word = columns_of(text.substr(0, text.find(' ')));
      const std::size_t left = columns > word ? std::max<std::size_t>(2, columns - word) : hang.size();
      result += "\n" + hang.substr(0, left);
      room = std::max<std::size_t>(1, columns - std::min({columns, columns_of(hang), left}));
    }
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

std::string source_lines(std::string_view source, std::size_t columns) {
  constexpr std::string_view mark = " \\";
  if (columns == std::string::npos) return std::string(source);
  std::string result;
  for (const std::string& line : lines_in(source)) {
    const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
    const std::string hang = "\n" + line.substr(0, begin) + "    ";
    std::string_view text = line;
    for (bool first = true; columns_of(text) > columns - (first ? 0 : columns_of(hang) - 1); first = false) {
      const std::size_t room = columns - std::min(columns, mark.size() + (first ? 0 : columns_of(hang) - 1));
      const std::size_t end = text.rfind(' ', byte_after(text, room));
      if (end == std::string_view::npos || end <= (first ? begin : 0)) break;  // one long word
      result.append(text.substr(0, end)).append(mark).append(hang);
      text.remove_prefix(std::min(text.find_first_not_of(' ', end), text.size()));
    }
    result.append(text) += '\n';
  }
  return result;
}

void Output::line(const std::string& words) const {
  const std::string shown = utf8_text(words) + "\n";
  write(text(), broken(shown, columns_of(text())));
}

void Output::line(const std::string& words, const std::string& hang) const {
  const std::string shown = utf8_text(words);
  const std::size_t columns = columns_of(text());
  write(text(), (columns == std::string::npos ? shown : wrapped(shown, columns, hang)) + "\n");
}

void tell(const std::string& words) {
  write(stderr, broken(words, columns_of(stderr)));
}

namespace {

constexpr std::size_t kGap = 2;

struct Column {
  std::size_t width = 0, longest_word = 0;
  bool right = true;  // numbers
};

// Of the cells from `first` on.
std::vector<Column> columns_in(const std::vector<std::vector<std::string>>& rows, std::size_t first) {
  std::vector<Column> columns;
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t c = first; c < rows[r].size(); ++c) {
      if (columns.size() <= c - first) columns.emplace_back();
      Column& column = columns[c - first];
      const std::string& cell = rows[r][c];
      column.width = std::max(column.width, columns_of(cell));
      if (r > 0 && !cell.empty() && !numeric(cell)) column.right = false;
      for (std::size_t at = 0; at <= cell.size();) {
        const std::size_t end = std::min(cell.find(' ', at), cell.size());
        column.longest_word = std::max(column.longest_word, columns_of(cell.substr(at, end - at)));
        at = end + 1;
      }
    }
  return columns;
}

// Makes columns narrower, the widest ones first, until all have room. False: their longest words do not.
bool fit(std::vector<Column>& columns, std::size_t room) {
  constexpr std::size_t kReadable = 12;  // no narrower while others can be
  std::size_t all = columns.empty() ? 0 : kGap * (columns.size() - 1);
  for (const Column& column : columns) all += column.width;
  const auto widest = [&](std::size_t least) {
    Column* found = nullptr;
    for (Column& column : columns)
      if (column.width > std::max(least, column.longest_word) && (!found || column.width > found->width))
        found = &column;
    return found;
  };
  for (; all > room; --all) {
    Column* next = widest(kReadable);
    if (!next) next = widest(0);
    if (!next) return false;
    --next->width;
  }
  return true;
}

std::string row_text(const std::vector<std::string>& row, std::size_t first,
                     const std::vector<Column>& columns, const std::string& indent) {
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 1;
  for (std::size_t c = first; c < row.size(); ++c) {
    cells.push_back(lines_in(wrapped(row[c], columns[c - first].width, "")));
    height = std::max(height, cells.back().size());
  }
  std::string out;
  for (std::size_t k = 0; k < height; ++k) {
    std::string line = indent;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string cell = k < cells[c].size() ? cells[c][k] : "";
      const std::string gap(columns[c].width - std::min(columns[c].width, columns_of(cell)), ' ');
      line += (c ? std::string(kGap, ' ') : "") + (columns[c].right ? gap + cell : cell + gap);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

// A cell whose spaces are marked where it must not be broken: a number stays with its unit.
constexpr char kKept = '\x1f';
std::string with_units(std::string cell) {
  if (numeric(cell))
    for (std::size_t i = 0; i + 1 < cell.size(); ++i)
      if (cell[i] == ' ' && !std::isdigit(static_cast<unsigned char>(cell[i + 1]))) cell[i] = kKept;
  return cell;
}

}  // namespace

void Table::row(std::vector<std::string> cells) {
  for (std::string& cell : cells)
    std::ranges::replace_if(
        cell, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  std::ranges::transform(cells, cells.begin(), with_units);
  rows_.push_back(std::move(cells));
}

std::string Table::text(const std::string& indent, std::size_t columns) const {
  std::string out = layout(indent, columns);
  std::ranges::replace(out, kKept, ' ');
  return out;
}

std::string Table::layout(const std::string& indent, std::size_t columns) const {
  const auto room = [&](std::size_t taken) {
    return columns == std::string::npos ? columns : columns - std::min(columns, taken);
  };
  std::vector<Column> whole = columns_in(rows_, 0);
  std::string out;
  if (fit(whole, room(indent.size())) || whole.size() < 2) {
    for (const auto& row : rows_) out += row_text(row, 0, whole, indent);
    return out;
  }
  const std::string below = indent + std::string(kGap, ' ');
  std::vector<Column> others = columns_in(rows_, 1);
  if (fit(others, room(below.size()))) {
    for (const auto& row : rows_) out += indent + row.front() + "\n" + row_text(row, 1, others, below);
    return out;
  }
  for (std::size_t r = 1; r < rows_.size(); ++r) {
    std::string cells;
    for (std::size_t c = 1; c < rows_[r].size(); ++c)
      if (!rows_[r][c].empty())
        cells += fmt::format("{}{}: {}", cells.empty() ? "" : ", ", rows_[0][c], rows_[r][c]);
    out += indent + rows_[r].front() + "\n" + wrapped(below + cells, columns, below) + "\n";
  }
  return out;
}

std::string short_id(const std::string& id) {
  return id.substr(0, 12);
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

namespace {

constexpr std::size_t kWidth = 100;  // of what is not shown on a terminal
constexpr auto kRedrawn = std::chrono::seconds(1), kTold = std::chrono::seconds(10);

}  // namespace

StepLine::StepLine(std::string text)
    : terminal_(redraws(stderr)),
      text_(std::move(text)),
      watcher_([this](const std::stop_token& stop) { watch(stop); }) {
  const std::lock_guard lock(mutex_);
  if (terminal_) draw();
}

StepLine::~StepLine() {
  watcher_.request_stop();
  const std::lock_guard lock(mutex_);
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void StepLine::show(std::string text) {
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
  if (terminal_) draw();
}

void StepLine::draw() {
  last_ = Clock::now();
  const double taken = in_seconds(last_ - began_);
  const std::string time = taken < 1.0 ? "" : fmt::format(" ({})", duration(taken));
  const std::size_t room = terminal_ ? terminal_width() - time.size() - 5 : kWidth;  // with the mark of a cut
  const std::string line = plain_line(text_, room) + time;
  std::fputs(((terminal_ ? "\r\033[K" : "") + line + (terminal_ ? "" : "\n")).c_str(), stderr);
  std::fflush(stderr);
}

void StepLine::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto due = last_ + (terminal_ ? kRedrawn : kTold);
    ending_.wait_until(lock, stop, due, [] { return false; });
    if (!stop.stop_requested() && Clock::now() >= due) draw();
  }
}

}  // namespace cultivar
