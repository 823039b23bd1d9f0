// What commands print: facts as JSON on stdout, words for people on stdout or, beside JSON, on stderr.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace cultivar {

// For people, on stderr. What cannot be written is lost: a terminal that went away must not stop a search.
template <class... Args>
void notify(fmt::format_string<Args...> form, Args&&... args) {
  const std::string text = fmt::format(form, std::forward<Args>(args)...);
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

class Output {
 public:
  explicit Output(bool json) : json_(json) {}
  bool json() const { return json_; }
  std::FILE* text() const { return json_ ? stderr : stdout; }
  void facts(const nlohmann::json&) const;  // indented, on stdout; nothing without --json
  void line(const std::string&) const;      // for people

 private:
  bool json_;
};

// Columns that line up. Text goes left, numbers go right.
class Table {
 public:
  explicit Table(std::vector<std::string> heads) : rows_{std::move(heads)} {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.size() == 1; }
  std::string text(const std::string& indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// A short name for an id that people can type: its first 12 characters.
std::string short_id(const std::string& id);
std::string duration(double seconds);      // "2 h 05 min", "3 min 10 s", "12.3 s"
std::string time_of(double microseconds);  // "12.3 us", "4.56 ms"
std::string bytes_of(double bytes);        // "32 KiB"
// "1.8x", with the digits that matter.
std::string ratio_of(double ratio);

}  // namespace cultivar
