// SPDX-License-Identifier: Apache-2.0
// Timeouts on a busy machine, at the start of a search and during a confirmation.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <mutex>

#include "engine/store/summary.hpp"
#include "support/simulated_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Busy : SimulatedRun {
  std::mutex mutex;
  std::map<std::pair<std::string, Stage>, int> late;  // remaining timeouts, by kernel and stage
  std::map<std::string, int> times;                   // evaluations of an unmodified seed

  Busy() {
    simulation.evaluate_s = 0.01;
    simulation.is_late = [this](const Variant& variant, Stage stage) {
      const std::lock_guard lock(mutex);
      const bool seed = variant.configuration == Configuration{{"BLOCK", std::int64_t{16}},
                                                               {"UNROLL", std::int64_t{1}},
                                                               {"THREADS", std::int64_t{1}},
                                                               {"LAYOUT", std::string("plain")},
                                                               {"UNUSED", std::int64_t{0}}};
      if (!seed) return false;
      if (stage == Stage::measure) ++times[variant.manifest.name];
      int& left = late[{variant.manifest.name, stage}];
      return left > 0 && left-- > 0;
    };
  }
  Outcome judged(int evaluations, const std::atomic<bool>& stop = kNever,
                 const SearchCallbacks& callbacks = {}) {
    return search({fmt::format("budget.evaluations={}", evaluations)}, callbacks, stop);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(late_seeds, Busy)

BOOST_AUTO_TEST_CASE(seeds_that_time_out_once_are_retried_and_become_parents) {
  late = {{{"softmax_plain", Stage::measure}, 1}, {{"softmax_fast", Stage::measure}, 1}};
  const Outcome outcome = judged(12);
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_TEST(times.at("softmax_plain") == 2);
  BOOST_TEST(times.at("softmax_fast") == 2);
  for (const IndividualId seed : {1, 2})
    BOOST_TEST((record().individual(seed)->state == IndividualState::measured));
  BOOST_TEST(told("smoke: timed out on tiny; it is evaluated again") == 2);
  BOOST_TEST(summary_of(record()).evaluations == 12);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_seed_that_is_late_twice_is_rejected_and_the_others_are_bred_from) {
  late = {{{"softmax_fast", Stage::measure}, 100}};
  const Outcome outcome = judged(12);
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_TEST(times.at("softmax_fast") == 2);
  BOOST_TEST((record().individual(2)->state == IndividualState::rejected));
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(without_a_usable_seed_the_search_ends_and_says_of_each_why) {
  late = {{{"softmax_plain", Stage::measure}, 100}, {{"softmax_fast", Stage::measure}, 100}};
  const Outcome outcome = judged(12);
  BOOST_TEST((outcome.stop == Outcome::Stop::failed));
  for (const char* words : {"no seed is usable", "#1 plain.cpp (smoke: timed out on tiny, at the second try)",
                            "#2 fast.cpp", "a quieter machine"})
    BOOST_TEST(outcome.reason.find(words) != std::string::npos, outcome.reason);
  BOOST_TEST(times.at("softmax_plain") == 2);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_confirmation_that_times_out_once_is_retried) {
  late = {{{"softmax_plain", Stage::confirm}, 1}, {{"softmax_fast", Stage::confirm}, 1}};
  const Outcome outcome = judged(2);  // only the seeds: a child may overtake a postponed one
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_REQUIRE(!record().promotions().empty());
  const IndividualId first = record().promotions().front().individual;
  BOOST_TEST(!record().individual(first)->expelled);
  const auto confirmed = record().confirmation(first);
  BOOST_REQUIRE(confirmed);
  BOOST_TEST(confirmed->measured());
  const int plain = late[{"softmax_plain", Stage::confirm}], fast = late[{"softmax_fast", Stage::confirm}];
  BOOST_TEST((first == 1 ? plain : fast) == 0);
  BOOST_TEST(told("it is confirmed again") == 2 - plain - fast);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(an_interrupted_search_remembers_what_timed_out) {
  late = {{{"softmax_plain", Stage::measure}, 100}};
  std::atomic<bool> stop{false};
  SearchCallbacks callbacks;
  callbacks.event = [&](const Event& event) {
    if (event.text.find("it is evaluated again") != std::string::npos) stop = true;
  };
  BOOST_TEST((judged(1000, stop, callbacks).stop == Outcome::Stop::interrupted));
  const std::int64_t most = summary_of(record()).evaluations + 12;
  const auto second = resume_search(run, {fmt::format("budget.evaluations={}", most)},
                                    simulated_runtime(simulation), {}, kNever);
  BOOST_REQUIRE(second);
  BOOST_TEST((second->stop == Outcome::Stop::evaluations), second->reason);
  BOOST_TEST((record().individual(1)->state == IndividualState::rejected));
  BOOST_TEST(told("it is evaluated again") == 1);
  require_replay_agrees();
}

BOOST_AUTO_TEST_SUITE_END()
