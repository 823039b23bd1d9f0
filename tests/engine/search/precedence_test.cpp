// SPDX-License-Identifier: Apache-2.0
// When a comparison that is due begins, and what goes before it.
#include "engine/search/precedence.hpp"

#include <fmt/format.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <thread>

#include "engine/search/search_end.hpp"
#include "engine/store/submissions.hpp"
#include "support/contains.hpp"
#include "support/search_parts.hpp"
#include "support/simulated_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

// Two seeds were measured; `speed` is that of whatever is measured next.
struct Parts : SearchParts {
  explicit Parts(const std::string& budget = "{wall: 1h}")
      : Parts(std::make_shared<std::atomic<double>>(10.0), budget) {}
  Parts(std::shared_ptr<std::atomic<double>> next, const std::string& budget)
      : SearchParts(measuring(next), {"budget=" + budget}),
        speed(std::move(next)),
        evaluations(config, recorder, breeding, sources, pipeline, second_tries, faults) {
    for (const IndividualId id : proposals.seeds({})) evaluations.enqueue(id);
    work();
  }
  static Simulation measuring(const std::shared_ptr<std::atomic<double>>& speed) {
    Simulation simulation;
    simulation.evaluate_instead = [speed](const Variant&) -> Expected<Evaluation> {
      Evaluation evaluation;
      evaluation.verdict = Evaluation::Verdict::measured;
      evaluation.stage = Stage::measure;
      evaluation.fitness = *speed;
      return evaluation;
    };
    return simulation;
  }
  void work() {
    evaluations.start_pending();
    drain([&](const JobPtr& job) { evaluations.returned(job, std::get<Evaluate>(job->work), {}); });
  }
  // As an operator proposes them, or, for a source of its own, as if a model had written it.
  void measure(int kernels, double at) {
    *speed = at;
    for (int i = 0; i < kernels; ++i) {
      const std::string source = softmax_source(fmt::format("softmax_{}", breeding.next_id()));
      NewProposal bred{{source, {}, {}}, sources.variant(source, {}), "stream"};
      bred.proposal.descent.parents = {1};
      bred.proposal.descent.op = "tune";
      evaluations.start(proposals.bred(bred, std::nullopt), bred.variant);
      work();
    }
  }
  IndividualId submit() {  // it is not measured yet
    const std::string source = softmax_source(fmt::format("softmax_{}", breeding.next_id()));
    BOOST_REQUIRE(put_submission(folder, {{}, source, "", {}, {}}));
    const auto ids = proposals.submissions();
    BOOST_REQUIRE(ids.size() == 1U);
    evaluations.enqueue(ids.front());
    return ids.front();
  }
  Precedence precedence(double turn_s = 0.0, bool asks = false) const {
    return {config, turn_s, asks, breeding, evaluations};
  }

  std::shared_ptr<std::atomic<double>> speed;
  Evaluations evaluations;
};

Precedence::Now tuning(double elapsed_s, double session_s = 0.0) {
  return {.elapsed_s = elapsed_s, .session_s = session_s, .settings_come = true};
}

Precedence::Now asking(double elapsed_s, std::int64_t answers) {
  return {.elapsed_s = elapsed_s, .answers = answers, .answers_come = true};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(precedence)

BOOST_AUTO_TEST_CASE(the_first_confirmation_waits_while_kernels_are_noticeably_faster_than_all_before) {
  Parts parts;
  Precedence rule = parts.precedence();
  BOOST_TEST(rule.of_kernels(tuning(1.0)));
  parts.measure(31, 10.0);
  BOOST_TEST(rule.of_kernels(tuning(2.0)));
  parts.measure(1, 10.6);
  BOOST_TEST(rule.of_kernels(tuning(3.0)));
  parts.measure(31, 10.7);  // a little faster than the last, which is not noticed
  BOOST_TEST(rule.of_kernels(tuning(4.0)));
  parts.measure(1, 10.7);
  BOOST_TEST(!rule.of_kernels(tuning(5.0)));
  parts.measure(1, 12.0);
  BOOST_TEST(rule.of_kernels(tuning(6.0)));
}

BOOST_AUTO_TEST_CASE(it_does_not_wait_where_nothing_more_is_proposed) {
  Parts parts;
  Precedence rule = parts.precedence();
  BOOST_TEST(!rule.of_kernels({.elapsed_s = 1.0}));
}

BOOST_AUTO_TEST_CASE(it_waits_for_a_quarter_of_the_budget_and_two_minutes_at_most) {
  const auto waits = [](const std::string& budget, const Precedence::Now& now, double turn_s = 0.0) {
    const Parts parts(budget);
    return parts.precedence(turn_s).of_kernels(now);
  };
  BOOST_TEST(waits("{wall: 40s}", tuning(9.0)));
  BOOST_TEST(!waits("{wall: 40s}", tuning(10.0)));
  BOOST_TEST(waits("{wall: 10h}", tuning(119.0)));
  BOOST_TEST(!waits("{wall: 10h}", tuning(121.0)));
  BOOST_TEST(waits("{plateau: 10h}", tuning(119.0)));
  BOOST_TEST(!waits("{plateau: 10h}", tuning(121.0)));
  BOOST_TEST(waits("{evaluations: 9}", tuning(1.0)));  // two seeds
  BOOST_TEST(!waits("{evaluations: 8}", tuning(1.0)));
  BOOST_TEST(waits("{wall: 10h}", tuning(100.0, 14.0), 60.0));
  BOOST_TEST(!waits("{wall: 10h}", tuning(100.0, 15.0), 60.0));
}

BOOST_AUTO_TEST_CASE(that_of_a_seed_waits_for_the_first_answers) {
  Parts parts;
  const int in_flight = parts.config.asking.in_flight;
  Precedence rule = parts.precedence(0.0, true);
  BOOST_TEST(rule.of_kernels({.elapsed_s = 50.0}));  // questions may go out
  BOOST_TEST(rule.of_kernels({.elapsed_s = 53.0}));
  BOOST_TEST(!rule.of_kernels({.elapsed_s = 55.0}));
  BOOST_TEST(rule.of_kernels(asking(60.0, in_flight - 1)));
  BOOST_TEST(!rule.of_kernels(asking(60.0, in_flight)));
  BOOST_TEST(rule.of_kernels(asking(169.0, 0)));
  BOOST_TEST(!rule.of_kernels(asking(171.0, 0)));
  rule.reset();
  BOOST_TEST(rule.of_kernels(asking(171.0, 0)));

  Precedence turn = parts.precedence(600.0, true);  // its letters
  BOOST_TEST(turn.of_kernels(asking(50.0, 0)));
  BOOST_TEST(!turn.of_kernels(asking(55.0, 0)));

  parts.measure(1, 20.0);  // by a model
  BOOST_TEST(!parts.precedence(0.0, true).of_kernels(asking(60.0, 0)));
}

BOOST_AUTO_TEST_CASE(later_comparisons_wait_for_kernels_of_users_and_models_that_were_under_way) {
  Parts parts;
  parts.breeding.promote(1);
  parts.measure(1, 20.0);
  Precedence rule = parts.precedence(0.0, true);
  BOOST_TEST(!rule.of_kernels({.elapsed_s = 50.0, .answers_come = true, .settings_come = true}));
  rule.reset();
  parts.submit();
  BOOST_TEST(rule.of_kernels(tuning(60.0)));
  BOOST_TEST(!rule.of_kernels(tuning(181.0)));
  parts.work();
  BOOST_TEST(!rule.of_kernels(tuning(60.0)));
}

BOOST_AUTO_TEST_CASE(comparisons_may_go_on_longer_after_a_budget_for_what_is_far_ahead) {
  Parts parts;
  BOOST_TEST(far_ahead(parts.breeding) == 1);  // there is no best
  BOOST_TEST(words_of_far_ahead(parts.breeding, "runs/a b") == "");
  parts.breeding.promote(1);
  BOOST_TEST(far_ahead(parts.breeding) == 0);
  parts.measure(1, 10.4);
  BOOST_TEST(parts.breeding.challengers() == 1U);
  BOOST_TEST(far_ahead(parts.breeding) == 0);
  parts.measure(1, 16.0);
  BOOST_TEST(far_ahead(parts.breeding) == 4);
  BOOST_TEST(
      words_of_far_ahead(parts.breeding, "runs/a b") ==
      "; #4, measured to be 1.6 times as fast as the best, waits for its duel: `cultivar resume 'runs/a b'`");
  BOOST_TEST(grace_after(45.0, false) == 5.0);
  BOOST_TEST(grace_after(45.0, true) == 150.0);
  BOOST_TEST(grace_after(7200.0, false) == 60.0);
}

BOOST_AUTO_TEST_CASE(a_search_confirms_what_its_first_proposals_found) {
  SimulatedRun tuned;
  tuned.simulation.noise = 0.0;
  tuned.search({"budget.evaluations=60"});
  const Record record = tuned.record();
  const auto promotions = record.promotions();
  BOOST_REQUIRE(!promotions.empty());
  const IndividualId first = promotions.front().individual;
  BOOST_TEST((record.individual(first)->individual.descent.origin == Origin::operator_));
  tuned.require_replay_agrees();
}

// The budget is used when the first confirmation ends, and the second one takes longer than work in progress
// may.
BOOST_AUTO_TEST_CASE(what_is_far_ahead_when_a_budget_is_used_is_compared_and_confirmed) {
  SimulatedRun run;
  std::atomic<bool> submitted = false, measured = false;
  run.simulation.noise = 0.0;
  run.simulation.confirm_s = 5.5;
  run.simulation.device_workers = 2;
  run.simulation.on_evaluate = [&](const Variant& variant) {
    if (variant.manifest.name == "softmax_fastest") measured = true;
  };
  run.simulation.is_late = [&](const Variant&, Stage stop_after) {
    if (stop_after != Stage::confirm || submitted.exchange(true)) return false;
    const Configuration best = {{"BLOCK", std::int64_t{64}},
                                {"UNROLL", std::int64_t{4}},
                                {"THREADS", std::int64_t{8}},
                                {"LAYOUT", std::string("packed")}};
    (void)submit_variant(run.run, softmax_source("softmax_fastest"), best, "");
    for (int i = 0; i < 3000 && !measured; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return false;
  };
  const Outcome outcome = run.search({"budget={device_hours: 0.001}", "seeds=[plain.cpp]"});
  BOOST_TEST((outcome.stop == Outcome::Stop::device), outcome.reason);
  const Record record = run.record();
  BOOST_TEST(record.promotions().size() == 2U);
  BOOST_REQUIRE(outcome.best != 0);
  BOOST_TEST((record.individual(outcome.best)->individual.descent.origin == Origin::submission));
  run.require_replay_agrees();
}

BOOST_AUTO_TEST_SUITE_END()
