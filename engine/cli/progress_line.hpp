// The face of a running search: one line that is rewritten on a terminal, a line every ten seconds elsewhere,
// and a line for each event that matters.
#pragma once

#include <string>

#include "engine/search.hpp"

namespace cultivar {

// The parts of a Progress in words: "best 12.4 GFLOPS (8.2x seed)  310/h  rejected 3 (compile 2, smoke 1)
// ...".
std::string words_of(const Progress&);

// What begin_search wants: to be called by one thread at a time. Prints to stderr.
class ProgressLine {
 public:
  explicit ProgressLine(bool verbose);
  ~ProgressLine();  // clears the line
  Faces faces();    // valid as long as this lives

 private:
  void show(const Progress&);
  void show(const Event&);
  void clear();

  bool verbose_, terminal_, drawn_ = false;
  double next_s_ = 0.0;
};

}  // namespace cultivar
