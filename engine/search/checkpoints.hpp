// Copies the record of a search from time to time.
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

  void take_if_due();  // in a separate thread
  void take_last();    // waits until it is written

 private:
  const CheckpointConfig& config_;
  const RunFolder& folder_;
  Recorder& recorder_;
  double last_;  // in Recorder::elapsed()
  std::future<Expected<std::filesystem::path>> being_made_;
};

}  // namespace cultivar
