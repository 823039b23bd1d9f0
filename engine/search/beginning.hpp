// SPDX-License-Identifier: Apache-2.0
// From an open record to devices that answer, which a scheduler may delay for hours; and what a
// resumed search may change.
#pragma once

#include <nlohmann/json.hpp>

#include <atomic>
#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/search/evaluator.hpp"
#include "engine/search/search_callbacks.hpp"
#include "engine/store/record_writer.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/clock.hpp"

namespace cultivar {

// Removes a new run again, except its log, unless it is kept.
class NewRun {
 public:
  NewRun(RunFolder folder, bool fresh) : folder_(std::move(folder)), fresh_(fresh) {}
  NewRun(const NewRun&) = delete;
  NewRun& operator=(const NewRun&) = delete;
  ~NewRun();  // after that of its record's writer
  void keep() { kept_ = true; }

 private:
  RunFolder folder_;
  bool fresh_;  // nothing else is in the folder
  bool kept_ = false;
};

inline constexpr const char* kWaitingForWorkers = "waiting for workers";  // the state of such a search

// All references outlive it. Not thread-safe.
class FirstWorkers {
 public:
  // `nothing_new`: a session with the settings of the one before. If that had finished and this one does not
  // begin, the search remains finished.
  FirstWorkers(RecordWriter&, const Config&, const SearchCallbacks&, const std::atomic<bool>& stop,
               bool nothing_new);

  // Evaluator::devices(). Until it returns, the record says what is awaited, with a heartbeat. After an Error
  // it says why the search did not begin.
  Expected<std::vector<DeviceInfo>> ask(Evaluator&);
  // The same for an error that was found later, for example a device of another kind.
  void never_began(const Error&);
  bool waited() const { return waited_; }  // long enough to be seen

 private:
  bool while_starting(const std::string& what);

  RecordWriter& writer_;
  const SearchCallbacks& callbacks_;
  const std::atomic<bool>& stop_;
  const Summary before_;
  const bool stays_finished_;
  const Clock::time_point start_ = Clock::now();
  double next_event_s_, next_heartbeat_s_ = 0.0;
  bool waited_ = false;
};

struct Found {
  std::vector<DeviceInfo> devices;
  nlohmann::json environment;  // as recorded
};

// Waits for the devices. The record has the Error, too.
Expected<Found> found_by(FirstWorkers&, Evaluator&);

// Settings that `cultivar resume --set` changes: KEY=VALUE, the key with the sections that it is in.

// All that require_changeable() permits, for a help text.
std::string changeable_settings();

// Whether KEY=VALUE is a setting of the evaluation that a resumed search can change.
bool changes_evaluation(const std::string& override);

// Throws InputError for a setting that was part of what is decided already: such a search is another one.
void require_changeable(const std::vector<std::string>& overrides);

// Throws InputError for a budget that is used up already, which would end the search at once and stay in the
// record. `config`: with the overrides.
void require_larger_budgets(const Config& config, const std::vector<std::string>& overrides,
                            const Summary& so_far);

// What the record says about settings of the evaluation that are other ones from here on; empty: none.
std::string changed_settings(const std::vector<std::string>& overrides);

}  // namespace cultivar
