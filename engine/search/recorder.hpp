// Writes the events of a search to its record, then emits them.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "engine/search/search_callbacks.hpp"
#include "engine/store/record_writer.hpp"
#include "evaluators/system/clock.hpp"

namespace cultivar {

// Not thread-safe: used only by the loop's thread.
class Recorder {
 public:
  Recorder(RecordWriter& writer, const SearchCallbacks& callbacks);  // both outlive it

  void start_clock() { began_ = Clock::now(); }
  double elapsed() const { return before_ + session(); }  // in all sessions, in seconds
  double session() const;                                 // in this session

  const Record& record() const { return writer_.record(); }
  // One transaction. Throws std::runtime_error if it cannot be written.
  void step(const std::function<void(Step&)>& write);
  // Within a step: an event, which is emitted after the step is written.
  void tell(Step&, const std::string& kind, IndividualId, std::string text);
  void trouble(IndividualId, const std::string& text);                              // as a separate step
  void show(const std::string& kind, IndividualId, const std::string& text) const;  // without recording it

 private:
  RecordWriter& writer_;
  const SearchCallbacks& callbacks_;
  const double before_;  // elapsed in earlier sessions
  Clock::time_point began_ = Clock::now();
  std::vector<Event> untold_;  // of the current step
};

}  // namespace cultivar
