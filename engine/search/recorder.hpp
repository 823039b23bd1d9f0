// What happens in a search, written to its record and then shown.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "engine/search/search_callbacks.hpp"
#include "engine/store/record_writer.hpp"
#include "evaluators/system/clock.hpp"

namespace cultivar {

// Not thread-safe: the loop's thread alone.
class Recorder {
 public:
  Recorder(RecordWriter& writer, const SearchCallbacks& callbacks);  // both outlive it

  void start_clock() { began_ = Clock::now(); }
  double elapsed() const { return before_ + session(); }  // of all sessions, in seconds
  double session() const;                                 // of this one

  const Record& record() const { return writer_.record(); }
  // All of `write` or nothing. Throws std::runtime_error when it cannot be recorded.
  void step(const std::function<void(Step&)>& write);
  // Within a step: an event, which is shown once it is recorded.
  void tell(Step&, const std::string& kind, IndividualId, std::string text);
  void trouble(IndividualId, const std::string& text);                              // a step of its own
  void show(const std::string& kind, IndividualId, const std::string& text) const;  // not recorded

 private:
  RecordWriter& writer_;
  const SearchCallbacks& callbacks_;
  const double before_;  // elapsed in earlier sessions
  Clock::time_point began_ = Clock::now();
  std::vector<Event> untold_;  // of the step that is being written
};

}  // namespace cultivar
