// SPDX-License-Identifier: Apache-2.0
// A run in a separate folder whose language model is a local server: start, resume, replay, and queries of
// its record. For tests with Boost.Test.
#pragma once

#include <boost/test/unit_test.hpp>
#include <map>

#include "support/scripted_search.hpp"

namespace cultivar::testing {

inline const std::atomic<bool> kNever{false};
inline const SaidUsage kUsage{1000, 0, 0, 100, 0};

// An answer of the openai protocol that costs kUsage.
inline Reply say(const std::string& text) {
  return event_stream(openai_events(text, kUsage));
}

struct ScriptedRun : ScratchFolder {
  Outcome begin(const std::vector<std::string>& overrides, const Simulation& simulation = {},
                const SearchCallbacks& callbacks = {}, const std::atomic<bool>& stop = kNever) {
    const Config config = softmax_config(path() / "config", overrides);
    const auto outcome = begin_search(config, path() / "run", simulated_runtime(simulation), callbacks, stop);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    return *outcome;
  }
  Outcome resume(const std::vector<std::string>& overrides = {}, const std::atomic<bool>& stop = kNever) {
    Runtime runtime = simulated_runtime({});
    runtime.trusts_record = true;  // its model is a local server
    const auto outcome = resume_search(path() / "run", overrides, runtime, {}, stop);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    return *outcome;
  }
  Record record() const {
    auto record = Record::open(path() / "run");
    BOOST_REQUIRE(record);
    return std::move(*record);
  }
  std::map<std::string, int> by_operator() const {
    std::map<std::string, int> counts;
    record().each_individual(
        [&](const IndividualRow& row) { ++counts[origin_name(row.individual.descent)]; });
    return counts;
  }
  int events(const std::string& kind, const std::string& part = "") const {
    int count = 0;
    for (const EventRow& event : record().events(100'000))
      count += event.kind == kind && event.text.find(part) != std::string::npos;
    return count;
  }
  void require_replay_agrees() const {
    const auto report = replay(path() / "run", simulated_runtime({}));
    BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
    for (const std::string& difference : report->differences) BOOST_ERROR(difference);
    BOOST_TEST(report->questions > 0);
  }
};

}  // namespace cultivar::testing
