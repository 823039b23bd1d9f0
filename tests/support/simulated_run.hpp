// SPDX-License-Identifier: Apache-2.0
// A whole search with the simulated evaluator in a folder of its own, and what its record says.
#pragma once

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "engine/search/search.hpp"
#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"
#include "support/scripted_search.hpp"

namespace cultivar::testing {

inline const std::atomic<bool> kNever{false};

struct SimulatedRun : ScratchFolder {
  std::filesystem::path run = path() / "run";
  Simulation simulation;

  Outcome search(const std::vector<std::string>& overrides, const SearchCallbacks& callbacks = {},
                 const std::atomic<bool>& stop = kNever) {
    const Config config = softmax_config(path() / "config", overrides);
    const auto outcome = begin_search(config, run, simulated_runtime(simulation), callbacks, stop);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    return *outcome;
  }
  // On a machine without the simulation's faults.
  Outcome resumed(const std::vector<std::string>& overrides) {
    const auto outcome = resume_search(run, overrides, simulated_runtime({}), {}, kNever);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    return *outcome;
  }
  Record record() const {
    auto opened = Record::open(run);
    BOOST_REQUIRE(opened);
    return std::move(*opened);
  }
  int told(const std::string& words) const {  // events with these words
    int count = 0;
    for (const EventRow& event : record().events(10'000))
      count += event.text.find(words) != std::string::npos;
    return count;
  }
  void require_replay_agrees() const {
    const auto report = replay(run, simulated_runtime({}));
    BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
    for (const std::string& difference : report->differences) BOOST_ERROR(difference);
    BOOST_TEST(report->judgements == summary_of(record()).evaluations);
  }
};

}  // namespace cultivar::testing
