// SPDX-License-Identifier: Apache-2.0
// Writes the events of a search to its record and then passes them to the callbacks.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/search/search_callbacks.hpp"
#include "engine/store/record_writer.hpp"
#include "engine/store/run_folder.hpp"
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

// Makes periodic copies of the record while the search continues.
// Not thread-safe. All references outlive it.
class Checkpoints {
 public:
  Checkpoints(const CheckpointConfig&, const RunFolder&, Recorder&);

  // Returns at once; a copy is made by a separate thread. Another value of `wanted`
  // than before: due now.
  void take_if_due(int wanted = 0);
  // From the beginning of a copy that took so many seconds to the next. A copy is of the whole record, whose
  // size has no limit, so copies are made during at most a tenth of the time.
  static double interval(const CheckpointConfig&, double took_s);
  void take_last();  // returns when the copy is complete

 private:
  const CheckpointConfig& config_;
  const RunFolder& folder_;
  Recorder& recorder_;
  int wanted_ = 0;
  double last_;  // in Recorder::elapsed()
  double took_s_ = 0.0;
  std::string told_;  // why the last one failed; one message for each outage
  std::future<Expected<std::filesystem::path>> being_made_;
};

}  // namespace cultivar
