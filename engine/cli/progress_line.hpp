// SPDX-License-Identifier: Apache-2.0
// The progress display of a search: a few lines that are redrawn on a terminal (one, if it is small), a line
// every ten seconds elsewhere, and a line for each event that matters. Lines that do not go to a terminal
// begin with the date and the time of day.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/search/search.hpp"
#include "engine/search/search_callbacks.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

// The few lines that a terminal shows of a search while it goes on: the best with how it grew, what is in
// flight, devices, budgets.

using BestsSoFar = std::vector<std::pair<double, double>>;  // search time in seconds, fitness; in order

struct LiveView {
  struct Share {  // of a budget
    std::string name, words;
    double used = 0.0;  // 0 to 1
  };
  std::string head;                                        // may be empty
  std::vector<std::pair<std::string, std::string>> lines;  // key and words; the first one is the best
  std::vector<Share> budgets;
  BestsSoFar bests;
  double elapsed_s = 0.0;
};
LiveView live_view_of(const Progress&, const BestsSoFar&);
LiveView live_view_of(const Summary&, const BestsSoFar&);

// Lines of at most `width` characters, cut between words. Without `utf8` only ASCII.
std::vector<std::string> drawn(const LiveView&, std::size_t width, bool utf8);

// The best so far over search time, in `columns` characters from the lowest to the highest; empty if there is
// none.
std::string sparkline(const BestsSoFar&, double elapsed_s, std::size_t columns, bool utf8);

// Whether this terminal's characters are UTF-8, by the usual variables of the environment.
bool speaks_utf8();

// A part of the line. Where not all have room, those with the highest ranks are left out.
struct ProgressField {
  std::string text;
  int rank = 0;            // 0: never left out
  std::string brief = {};  // what replaces the text where room is short; empty: nothing
};
std::vector<ProgressField> fields_of(const Progress&);
// "best 12.4 GFLOPS (#7), confirmed 8.20x first seed | 16 evaluated, 310/h | rejected 3 (compile 2,
// smoke 1) ...", of at most `width` characters.
std::string line_of(std::vector<ProgressField>, std::size_t width = std::string::npos);
std::string words_of(const Progress&);  // the whole line

// When an event of the log was, to the second also after days: "1 min 01 s", "27:46:40 h".
std::string time_in_log(double seconds);

// Implements the callbacks of begin_search, which calls them from one thread at a time. Prints to stderr.
class ProgressLine {
 public:
  using Fields = std::function<std::vector<ProgressField>(const Progress&)>;  // what the line says
  explicit ProgressLine(bool verbose);
  ProgressLine(bool verbose, Fields);  // always one line
  ~ProgressLine();                     // clears the line
  SearchCallbacks callbacks();         // valid while this object exists

 private:
  void show(const Progress&);
  void show(const Event&);
  void clear();

  Fields fields_;
  bool verbose_, terminal_, several_ = false, utf8_ = false;
  std::vector<std::size_t> drawn_;  // the columns of each line
  double next_s_ = 0.0;
  BestsSoFar bests_;
};

}  // namespace cultivar
