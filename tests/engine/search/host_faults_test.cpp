// SPDX-License-Identifier: Apache-2.0
// Faults of the machine in a whole search: no kernel is rejected for one, and a search without a worker
// waits.
#include "engine/search/host_faults.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/store/summary.hpp"
#include "support/simulated_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Ill : SimulatedRun {
  std::mutex mutex;

  // Individuals that were rejected, or expelled, because of a fault of the host.
  int condemned() const {
    int count = 0;
    const Record all = record();
    all.each_individual([&](const IndividualRow& row) {
      const auto judged = all.evaluation(row.individual.id);
      const auto confirmed = row.expelled ? all.confirmation(row.individual.id) : std::nullopt;
      count += (row.state == IndividualState::rejected && judged && judged->host_fault) ||
               (confirmed && confirmed->host_fault);
    });
    return count;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(host_faults, Ill)

BOOST_AUTO_TEST_CASE(two_hundred_planted_faults_condemn_nobody) {
  int planted = 0;
  std::set<std::string> met;  // each kernel meets a fault when it is evaluated first
  simulation.host_fault = [&](const Variant& variant, Stage) -> std::optional<HostFault> {
    const std::lock_guard lock(mutex);
    constexpr std::array kinds{HostFault::killed, HostFault::cache_lost, HostFault::launcher_failed,
                               HostFault::cache_unwritable, HostFault::memory_held};
    if (planted >= 200 || !met.insert(variant.id).second) return std::nullopt;
    return kinds[static_cast<std::size_t>(planted++) % kinds.size()];
  };
  const Outcome outcome = search({"budget.evaluations=400", "evaluation.patience=20s"});
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_TEST(planted == 200);
  BOOST_TEST(condemned() == 0);
  const Summary summary = summary_of(record());
  BOOST_TEST(summary.evaluations == 400);
  BOOST_TEST(summary.best->fitness > 15.0);
  require_replay_agrees();
}

// As on a machine whose memory limit is too low for a while, also for kernels that are known to work.
BOOST_AUTO_TEST_CASE(an_ill_machine_condemns_nobody_even_by_faults_that_a_kernel_could_cause) {
  int left = 12, measured = 0;
  simulation.host_fault = [&](const Variant&, Stage) -> std::optional<HostFault> {
    const std::lock_guard lock(mutex);
    if (++measured <= 6 || left <= 0) return std::nullopt;
    --left;
    return HostFault::out_of_memory;
  };
  const Outcome outcome = search({"budget.evaluations=20", "evaluation.patience=20s"});
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_TEST(left == 0);
  BOOST_TEST(condemned() == 0);
  BOOST_TEST(told("measured to see whether this machine is the cause") > 0);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(seeds_whose_runs_are_too_short_on_a_busy_machine_are_evaluated_again) {
  int left = 4;
  simulation.host_fault = [&](const Variant&, Stage) -> std::optional<HostFault> {
    const std::lock_guard lock(mutex);
    return left-- > 0 ? std::optional(HostFault::busy) : std::nullopt;
  };
  const Outcome outcome = search({"budget.evaluations=10", "evaluation.patience=20s"});
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_TEST(left < 0);
  BOOST_TEST(condemned() == 0);
  BOOST_TEST(told("it is evaluated again") == 4);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_kernel_that_alone_runs_out_of_memory_is_rejected_after_known_kernels_were_well) {
  std::map<std::string, int> tried;
  simulation.host_fault = [&](const Variant& variant, Stage) -> std::optional<HostFault> {
    const std::lock_guard lock(mutex);
    const auto unroll = variant.configuration.find("UNROLL");
    if (unroll == variant.configuration.end() || unroll->second != TunableValue(std::int64_t{2}))
      return std::nullopt;
    ++tried[variant.id];
    return HostFault::out_of_memory;
  };
  const Outcome outcome = search({"budget.evaluations=30", "evaluation.patience=20s"});
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_REQUIRE(!tried.empty());
  BOOST_TEST(condemned() == static_cast<int>(tried.size()));
  for (const auto& [id, times] : tried) BOOST_TEST((times >= 3 && times <= 8), times);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_duel_and_a_confirmation_that_meet_a_fault_are_repeated) {
  std::map<Stage, int> left{{Stage::gate, 2}, {Stage::confirm, 2}};
  simulation.host_fault = [&](const Variant&, Stage stage) -> std::optional<HostFault> {
    const std::lock_guard lock(mutex);
    if (left[stage]-- > 0) return HostFault::killed;
    return std::nullopt;
  };
  const Outcome outcome = search({"budget.evaluations=40"});
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_TEST(told("the duel is repeated") == 2);
  BOOST_TEST(told("it is confirmed again") == 2);
  BOOST_TEST(condemned() == 0);
  BOOST_TEST(summary_of(record()).best->fitness > 15.0);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_contender_whose_compiler_met_a_fault_is_compiled_again_and_timed) {
  int left = 2;
  simulation.compile_fault = [&](const Variant& variant) -> std::optional<HostFault> {
    const std::lock_guard lock(mutex);
    if (variant.manifest.name != "softmax_rival" || left <= 0) return std::nullopt;
    --left;
    return HostFault::killed;
  };
  std::filesystem::create_directories(path() / "config");
  std::ofstream(path() / "config" / "rival.cpp") << softmax_source("softmax_rival");
  const Outcome outcome = search({"budget.evaluations=5", "contenders=[./rival.cpp]"});
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_TEST(left == 0);
  BOOST_TEST(told("it is compiled again") == 2);
  BOOST_TEST(told("does not compile") == 0);
  BOOST_TEST(summary_of(record()).best->ratios.contains("softmax_rival"));
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_contender_that_meets_faults_again_and_again_does_not_hold_up_the_search) {
  simulation.compile_fault = [](const Variant& variant) {
    return variant.manifest.name == "softmax_rival" ? std::optional(HostFault::killed) : std::nullopt;
  };
  std::filesystem::create_directories(path() / "config");
  std::ofstream(path() / "config" / "rival.cpp") << softmax_source("softmax_rival");
  const Outcome outcome =
      search({"budget.evaluations=5", "contenders=[./rival.cpp]", "evaluation.patience=20s"});
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_TEST(told("contender softmax_rival does not compile") >= 1);
  BOOST_TEST(summary_of(record()).best->ratios.empty());
}

BOOST_AUTO_TEST_CASE(without_a_worker_a_search_waits_for_its_patience_and_a_resumed_one_goes_on) {
  std::atomic<bool> away{true};
  simulation.has_no_worker = [&](int) { return away.load(); };
  const Outcome outcome = search({"budget.evaluations=10", "evaluation.patience=1s"});
  BOOST_TEST((outcome.stop == Outcome::Stop::failed));
  BOOST_TEST(outcome.reason.find("evaluation.patience") != std::string::npos, outcome.reason);
  BOOST_TEST(summary_of(record()).evaluations == 0);
  BOOST_TEST(told("the device does not answer") >= 3);
  away = false;
  const auto again = resume_search(run, {}, simulated_runtime(simulation), {}, kNever);
  BOOST_REQUIRE(again);
  BOOST_TEST((again->stop == Outcome::Stop::evaluations), again->reason);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(while_it_waits_its_record_says_since_when_and_when_it_tries_again) {
  std::atomic<bool> away{true};
  simulation.has_no_worker = [&](int) { return away.load(); };
  std::optional<Waiting> seen;
  bool gone_again = false;
  SearchCallbacks callbacks;
  callbacks.progress = [&](const Progress& progress) {
    if (!std::filesystem::exists(run / "run.db")) return;
    const Summary summary = summary_of(record());
    if (away && summary.waiting && summary.waiting->for_s > 0.1) {
      seen = summary.waiting;
      BOOST_TEST(nlohmann::json(summary).at("waiting").at("why") == seen->why);
      BOOST_TEST(progress.waiting.starts_with("no worker: waiting since"), progress.waiting);
      away = false;
    } else if (!away && progress.evaluations > 0) {
      gone_again = gone_again || !summary.waiting;
    }
  };
  simulation.evaluate_s = 0.05;
  const Config config =
      softmax_config(path() / "config", {"budget.evaluations=10", "evaluation.patience=30s"});
  BOOST_REQUIRE(begin_search(config, run, simulated_runtime(simulation), callbacks, kNever));
  BOOST_REQUIRE(seen.has_value());
  BOOST_TEST(seen->why.find("the device does not answer") != std::string::npos, seen->why);
  BOOST_TEST(gone_again);
  BOOST_TEST(!summary_of(record()).waiting);
}

BOOST_AUTO_TEST_CASE(workers_that_come_back_within_the_patience_are_used_again) {
  std::atomic<int> asked{0};
  simulation.has_no_worker = [&](int) { return ++asked <= 6; };
  const Outcome outcome = search({"budget.evaluations=10", "evaluation.patience=60s"});
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  BOOST_TEST(condemned() == 0);
}

BOOST_AUTO_TEST_CASE(a_seed_that_always_meets_faults_of_the_host_waits_for_a_resumed_search) {
  simulation.host_fault = [](const Variant&, Stage) { return HostFault::killed; };
  const Outcome outcome = search({"budget.evaluations=10", "evaluation.patience=20s"});
  BOOST_TEST((outcome.stop == Outcome::Stop::failed));
  BOOST_TEST(outcome.reason.find("A resumed search evaluates them again") != std::string::npos,
             outcome.reason);
  simulation.host_fault = nullptr;
  const auto again = resume_search(run, {}, simulated_runtime(simulation), {}, kNever);
  BOOST_REQUIRE(again);
  BOOST_TEST((again->stop == Outcome::Stop::evaluations), again->reason);
  BOOST_TEST(condemned() == 0);
  require_replay_agrees();
}

BOOST_AUTO_TEST_SUITE_END()
