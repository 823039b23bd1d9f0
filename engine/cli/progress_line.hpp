// SPDX-License-Identifier: Apache-2.0
// The progress display of a search: one line that is redrawn on a terminal, a line every ten seconds
// elsewhere, and a line for each event that matters. Lines that do not go to a terminal begin with the time
// of day.
#pragma once

#include <functional>
#include <string>

#include "engine/search/search.hpp"

namespace cultivar {

// A Progress as text: "best 12.4 GFLOPS (#7, 8.2x seed) | 16 evaluated, 310/h | rejected 3 (compile 2, smoke
// 1) ...".
std::string words_of(const Progress&);

// When an event of the log was, to the second also after days: "1 min 01 s", "27:46:40 h".
std::string time_in_log(double seconds);

// Implements the callbacks of begin_search, which calls them from one thread at a time. Prints to stderr.
class ProgressLine {
 public:
  using Words = std::function<std::string(const Progress&)>;  // what the line says
  explicit ProgressLine(
      bool verbose, Words = [](const Progress& p) { return words_of(p); });
  ~ProgressLine();              // clears the line
  SearchCallbacks callbacks();  // valid while this object exists

 private:
  void show(const Progress&);
  void show(const Event&);
  void clear();

  Words words_;
  bool verbose_, terminal_, drawn_ = false;
  double next_s_ = 0.0;
};

}  // namespace cultivar
