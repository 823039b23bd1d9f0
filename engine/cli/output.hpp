// SPDX-License-Identifier: Apache-2.0
// What commands print: JSON on stdout; text for people on stdout or, with --json, on stderr.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// For people, on stderr. Write errors are ignored: a closed terminal must not stop a search.
template <class... Args>
void notify(fmt::format_string<Args...> form, Args&&... args) {
  const std::string text = fmt::format(form, std::forward<Args>(args)...);
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

// Of the terminal to which notify() writes; 80 if it does not say.
std::size_t terminal_width();
std::size_t terminal_rows();  // the same; 24

// Display columns: the characters of a text.
std::size_t columns_of(std::string_view);
// At most this many columns; what is left out, from a space on, is marked.
std::string between_words(const std::string&, std::size_t columns);
// Lines of at most this many columns, broken at spaces; those that continue a line begin with `hang`. A word
// that is longer stays whole.
std::string wrapped(std::string_view text, std::size_t columns, const std::string& hang);
// Of the terminal that the file is; npos: it is none, and lines are as long as they are.
std::size_t columns_of(std::FILE*);

class Output {
 public:
  explicit Output(bool json) : json_(json) {}
  bool json() const { return json_; }
  std::FILE* text() const { return json_ ? stderr : stdout; }
  void facts(const nlohmann::json&) const;  // indented, on stdout; prints nothing without --json
  // For people. On a terminal, lines that are too long are broken at spaces; those that continue one begin
  // below its text, or with `hang`.
  void line(const std::string&) const;
  void line(const std::string&, const std::string& hang) const;

 private:
  bool json_;
};

// Aligned columns: text to the left, numbers to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> heads) : rows_{std::move(heads)} {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.size() == 1; }
  // Columns of words are broken into several lines where the table would be wider than `columns`.
  std::string text(const std::string& indent = "", std::size_t columns = columns_of(stdout)) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// A short form of an id, for people to type: its first 12 characters.
std::string short_id(const std::string& id);
std::string duration(double seconds);      // "2 h 05 min", "3 min 10 s", "12.3 s"
std::string time_of(double microseconds);  // "12.3 us", "4.56 ms"
std::string bytes_of(double bytes);        // "32 KiB"
// "1.53x", with more decimals near 1.
std::string ratio_of(double ratio);

}  // namespace cultivar
