// SPDX-License-Identifier: Apache-2.0
// How commands end and what they print: JSON on stdout; text for people on stdout or, with --json, on stderr.
#pragma once

#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/config/duration.hpp"  // IWYU pragma: export
#include "evaluators/system/clock.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

// For people, on stderr; on a terminal, lines that are too long are broken at spaces. Write errors are
// ignored: a closed terminal must not stop a search.
void tell(const std::string&);
template <class... Args>
void notify(fmt::format_string<Args...> form, Args&&... args) {
  tell(fmt::format(form, std::forward<Args>(args)...));
}

// Of the terminal to which notify() writes; 80 if it does not say.
std::size_t terminal_width();
std::size_t terminal_rows();  // the same; 24
bool redraws(std::FILE*);     // a terminal on which the cursor can be moved, unlike one with TERM=dumb

// Display columns: the characters of a text.
std::size_t columns_of(std::string_view);
// At most this many columns; what is left out, from a space on, is marked.
std::string between_words(const std::string&, std::size_t columns);
// Lines of at most this many columns, broken at spaces; those that continue a line begin with `hang`. A word
// that is longer stays whole, and begins further to the left if it has room there.
std::string wrapped(std::string_view text, std::size_t columns, const std::string& hang);
// The lines of a source; longer ones are broken at spaces, with a backslash at the break.
std::string source_lines(std::string_view source, std::size_t columns);
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
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.size() == 1; }
  // Where the table would be wider than `columns`, cells are broken at spaces; if that is not enough, the
  // first cell of each row gets a line of its own, or at last each cell stands behind its head. Words
  // stay whole, and numbers with their units.
  std::string text(const std::string& indent = "", std::size_t columns = columns_of(stdout)) const;

 private:
  std::string layout(const std::string& indent, std::size_t columns) const;

  std::vector<std::vector<std::string>> rows_;
};

// A short form of an id, for people to type: its first 12 characters.
std::string short_id(const std::string& id);
std::string time_of(double microseconds);  // "12.3 us", "4.56 ms"
std::string bytes_of(double bytes);        // "32 KiB"

// Shows a slow step of a command on stderr with its elapsed time: a line that is redrawn on a terminal, a
// line at least every ten seconds elsewhere. A thread draws it, because the step itself may report nothing.
class StepLine {  // show() may be called from any thread
 public:
  explicit StepLine(std::string text);
  ~StepLine();  // clears the line
  StepLine(const StepLine&) = delete;
  StepLine& operator=(const StepLine&) = delete;
  void show(std::string text);

 private:
  void draw();  // with mutex_ held
  void watch(const std::stop_token&);

  bool terminal_;
  Clock::time_point began_ = Clock::now(), last_ = began_;
  std::mutex mutex_;  // guards what follows
  std::string text_;
  std::condition_variable_any ending_;
  std::jthread watcher_;  // last member: joined before the others are destroyed
};

// Converts the error of an Expected to the exception that ends a command with the right exit code.

// Kind missing: something that the command needs is not installed (exit 3); kind interrupted: by the user
// (exit 130); other kinds: the work failed (exit 1).
[[noreturn]] inline void raise(const Error& error) {
  if (error.kind == ErrorKind::interrupted) throw InterruptedError(error.text());
  if (error.kind == ErrorKind::missing) throw MissingError(error.message);
  throw std::runtime_error(error.text());
}

template <class T>
T must(Expected<T> value) {
  if (!value) raise(value.error());
  return std::move(*value);
}

inline void must(Expected<void> value) {
  if (!value) raise(value.error());
}

}  // namespace cultivar
