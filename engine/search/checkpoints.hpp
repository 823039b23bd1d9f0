// SPDX-License-Identifier: Apache-2.0
// Makes periodic copies of the record while the search continues.
#pragma once

#include <filesystem>
#include <future>

#include "engine/config/config.hpp"
#include "engine/search/recorder.hpp"
#include "engine/store/run_folder.hpp"

namespace cultivar {

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
