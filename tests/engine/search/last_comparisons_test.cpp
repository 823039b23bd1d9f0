// SPDX-License-Identifier: Apache-2.0
// After a spent budget, duels and confirmations are bounded; a resumed search does those that are left.
#include <SQLiteCpp/Database.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/search/search.hpp"
#include "engine/store/summary.hpp"
#include "support/contains.hpp"
#include "support/simulated_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

// All kernels but the seeds seem better than the best, duels decide nothing, and the first one lasts until
// nearly all are evaluated, on however slow a machine.
struct Crowded : SimulatedRun {
  std::mutex mutex;
  std::map<std::string, std::size_t> order;  // of first evaluations, by variant

  Crowded() {
    simulation.seems = [this](const Variant& variant) {
      const std::lock_guard lock(mutex);
      return 100.0 + 10.0 * static_cast<double>(order.emplace(variant.id, order.size()).first->second);
    };
    simulation.host_fault = [this](const Variant&, Stage stage) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
      while (stage == Stage::gate && std::chrono::steady_clock::now() < end) {
        if (const auto seen = Record::open(run); seen && summary_of(*seen).evaluations >= 56) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      return std::optional<HostFault>();
    };
    simulation.gate_noise = 50.0;
    simulation.gate_s = 0.3;
    simulation.device_workers = 3;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(last_comparisons, Crowded)

BOOST_AUTO_TEST_CASE(they_end_at_their_limit_and_those_left_are_compared_when_the_search_is_resumed) {
  std::int64_t shown = 0;
  SearchCallbacks callbacks;
  callbacks.progress = [&](const Progress& progress) {
    if (progress.most_last_comparisons > 0) shown = progress.most_last_comparisons;
  };
  const Outcome outcome = search(
      {"budget.evaluations=60", "budget.last_comparisons=3", "gate.max_device_seconds=0.3s"}, callbacks);
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_TEST(contains(outcome.reason, "for a duel after the last 3 comparisons"), outcome.reason);
  BOOST_TEST(shown == 3);
  const std::int64_t left = summary_of(record()).challengers;
  BOOST_TEST(left > 0);
  // The confirmation of a winner may come on top.
  const std::int64_t made = comparisons_since_judgement(record());
  BOOST_TEST(made >= 3);
  BOOST_TEST(made <= 4);
  BOOST_TEST(!record().outstanding());
  require_replay_agrees();

  // The same budget: nothing is left to do.
  BOOST_TEST((resumed({}).stop == Outcome::Stop::evaluations));
  BOOST_TEST(comparisons_since_judgement(record()) == made);

  BOOST_TEST((resumed({"budget.last_comparisons=1000"}).stop == Outcome::Stop::evaluations));
  BOOST_TEST(summary_of(record()).challengers == 0);
  BOOST_TEST(summary_of(record()).evaluations == 60);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_larger_budget_goes_on_with_those_left) {
  search({"budget.evaluations=60", "budget.last_comparisons=0", "gate.max_device_seconds=0.3s"});
  const auto left = summary_of(record()).challengers;
  const auto duels = summary_of(record()).duels;
  BOOST_TEST(left > 0);
  resumed({"budget.evaluations=64", "budget.last_comparisons=1000"});
  BOOST_TEST(summary_of(record()).challengers == 0);
  BOOST_TEST(summary_of(record()).duels > duels);
  require_replay_agrees();
}

// As after hours: without waiting for them here.
BOOST_AUTO_TEST_CASE(a_resume_with_a_spent_wall_budget_ends_at_once_unless_kernels_wait) {
  search({"budget.evaluations=60", "budget.wall=2h", "budget.last_comparisons=0",
          "gate.max_device_seconds=0.3s"});
  const auto left = summary_of(record()).challengers;
  BOOST_REQUIRE(left > 0);
  SQLite::Database((run / "run.db").string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE meta SET value = '7201' WHERE key = 'elapsed_s'");
  int started = 0;
  std::string first;
  SearchCallbacks callbacks;
  callbacks.event = [&](const Event& event) { first = first.empty() ? event.text : first; };
  const auto resume = [&](const std::vector<std::string>& overrides) {
    Simulation machine;
    machine.start = [&](const Evaluator::WhileStarting&) -> Expected<void> {
      ++started;
      return {};
    };
    first.clear();
    auto outcome = resume_search(run, overrides, simulated_runtime(machine), callbacks, kNever);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    BOOST_TEST((outcome->stop == Outcome::Stop::wall), outcome->reason);
    BOOST_TEST(summary_of(record()).state == "finished");
    BOOST_TEST(summary_of(record()).stop_reason == "the wall-clock budget of 2 h is exhausted");
    BOOST_TEST(outcome->best == record().best().value());
  };
  resume({});
  BOOST_TEST(started == 1);
  BOOST_TEST(contains(first, "the wall-clock budget of 2 h is exhausted: only "), first);
  BOOST_TEST(contains(first, std::to_string(left) + " kernel"), first);
  BOOST_TEST(contains(first, "compared with the best, for at most "), first);
  BOOST_TEST(contains(first, "--set budget.wall=..."), first);
  BOOST_TEST(summary_of(record()).challengers == 0);
  require_replay_agrees();

  const auto duels = summary_of(record()).duels;
  resume({});
  BOOST_TEST(started == 1);  // no worker was
  BOOST_TEST(first == "the wall-clock budget of 2 h is exhausted");
  BOOST_TEST(summary_of(record()).duels == duels);
  require_replay_agrees();
  BOOST_TEST((resumed({"budget.evaluations=64", "budget.wall=3h"}).stop == Outcome::Stop::evaluations));
  BOOST_TEST(summary_of(record()).evaluations == 64);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_challenger_in_its_duel_is_not_one_that_waits) {
  search({"budget.evaluations=60", "budget.last_comparisons=0", "gate.max_device_seconds=0.3s"});
  const auto left = summary_of(record()).challengers;
  BOOST_TEST(left > 0);
  std::optional<std::int64_t> shown;
  std::promise<void> seen;
  SearchCallbacks callbacks;
  callbacks.progress = [&](const Progress& progress) {
    const bool duel = std::ranges::any_of(
        progress.in_flight, [](const InFlight& each) { return each.doing == InFlight::Doing::duel; });
    if (!duel || shown) return;
    shown = progress.challengers;
    seen.set_value();
  };
  Simulation held;  // each duel, until it was shown
  held.host_fault = [until = seen.get_future().share()](const Variant&, Stage stage) {
    if (stage == Stage::gate) until.wait_for(std::chrono::minutes(1));
    return std::optional<HostFault>();
  };
  const auto outcome =
      resume_search(run, {"budget.last_comparisons=1000"}, simulated_runtime(held), callbacks, kNever);
  BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
  BOOST_TEST(shown.value() == left - 1);
}

BOOST_AUTO_TEST_SUITE_END()
