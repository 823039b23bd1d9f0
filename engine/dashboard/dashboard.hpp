// SPDX-License-Identifier: Apache-2.0
// Answers the requests of the dashboard's page from the records of runs, through engine/views. Only reads.
// Not thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/dashboard/requests.hpp"

namespace cultivar {

class Dashboard {
 public:
  // `runs`: folders of runs, which may have no record yet. `folders`: all runs below them, also later ones.
  Dashboard(std::vector<std::filesystem::path> runs, std::vector<std::filesystem::path> folders);
  ~Dashboard();
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;

  // To a request that may be answered (refusal()). Trouble with a record is an answer that says so.
  PageResponse answer(const PageRequest&);
  // Differs when the run's record has changed, or that of any run (empty name); empty: it cannot be read.
  std::string revision(const std::string& run);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
