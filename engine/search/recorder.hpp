// SPDX-License-Identifier: Apache-2.0
// Writes the events of a search to its record and then passes them to the callbacks.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "engine/search/search_callbacks.hpp"
#include "engine/store/record_writer.hpp"
#include "evaluators/system/clock.hpp"

namespace cultivar {

// Not thread-safe: only for the thread of the search loop.
class Recorder {
 public:
  Recorder(RecordWriter& writer, const SearchCallbacks& callbacks);  // both outlive it

  void start_clock() { began_ = Clock::now(); }
  double elapsed() const { return before_ + session(); }  // seconds, over all sessions
  double session() const;                                 // seconds, in this session

  const Record& record() const { return writer_.record(); }
  // Records all that `write` writes, or nothing. Throws std::runtime_error if it cannot be recorded.
  void step(const std::function<void(Step&)>& write);
  // Within a step: adds an event, which is shown after the step is recorded.
  void tell(Step&, const std::string& kind, IndividualId, std::string text);
  void trouble(IndividualId, const std::string& text);  // an event, as a step of its own
  void show(const std::string& kind, IndividualId, const std::string& text) const;  // without recording it

 private:
  RecordWriter& writer_;
  const SearchCallbacks& callbacks_;
  const double before_;  // seconds of earlier sessions
  Clock::time_point began_ = Clock::now();
  std::vector<Event> untold_;  // events of the current step
};

}  // namespace cultivar
