// SPDX-License-Identifier: Apache-2.0
// Evaluations on their own: what is owed, what lint refuses, what is measured only once.
#include "engine/search/evaluations.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "support/search_parts.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Parts : SearchParts {
  explicit Parts(const Simulation& simulation = {}, const std::vector<std::string>& overrides = {})
      : SearchParts(simulation, overrides),
        evaluations(config, recorder, breeding, sources, pipeline, second_tries, faults) {}

  void work() {
    do {
      evaluations.start_pending();
      drain([&](const JobPtr& job) { evaluations.returned(job, std::get<Evaluate>(job->work), {}); });
    } while (evaluations.has_pending());
  }
  void take_seeds() {
    for (const IndividualId id : proposals.seeds({})) evaluations.enqueue(id);
    work();
  }
  // As an operator proposes it.
  IndividualId breed(const Configuration& configuration,
                     const std::string& source = softmax_source("softmax_plain")) {
    NewProposal bred{{source, configuration, {}}, sources.variant(source, configuration), "stream"};
    bred.proposal.descent.parents = {1};
    bred.proposal.descent.op = "tune";
    const IndividualId id = proposals.bred(bred, std::nullopt);
    evaluations.start(id, bred.variant);
    return id;
  }

  Evaluations evaluations;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(evaluations)

BOOST_AUTO_TEST_CASE(what_is_owed_is_measured_and_judged) {
  Parts parts;
  parts.take_seeds();
  BOOST_TEST(parts.breeding.judged() == 2);
  BOOST_TEST(parts.evaluations.in_flight() == 0);
  BOOST_TEST(parts.events("measured").size() == 2U);
  Progress progress;
  parts.evaluations.show(progress);
  BOOST_TEST(progress.measured == 2);
  BOOST_TEST(progress.unit == "GB/s");
}

BOOST_AUTO_TEST_CASE(no_more_are_out_than_there_is_room_for) {
  Parts parts({}, {"evaluation.depth=1"});
  for (const IndividualId id : parts.proposals.seeds({})) parts.evaluations.enqueue(id);
  parts.evaluations.start_pending();
  BOOST_TEST(parts.evaluations.in_flight() == 1);
  BOOST_TEST(parts.evaluations.has_pending());
  BOOST_TEST(!parts.evaluations.has_room());
  parts.work();
  BOOST_TEST(parts.breeding.judged() == 2);
}

BOOST_AUTO_TEST_CASE(equal_machine_code_is_judged_by_its_twin_and_not_measured) {
  std::atomic<int> measured{0};
  Simulation simulation;
  simulation.on_evaluate = [&](const Variant&) { ++measured; };
  Parts parts(simulation);
  parts.take_seeds();
  const IndividualId id = parts.breed({{"UNUSED", std::int64_t{1}}});  // changes no machine code
  parts.work();
  BOOST_TEST(parts.writer.record().individual(id)->individual.duplicate_of == 1);
  BOOST_TEST(measured == 2);
}

BOOST_AUTO_TEST_CASE(lint_refuses_before_anything_is_compiled) {
  Parts parts;
  parts.take_seeds();
  // BLOCK * UNROLL is beyond the constraint.
  const IndividualId id = parts.breed({{"BLOCK", std::int64_t{256}}, {"UNROLL", std::int64_t{16}}});
  BOOST_TEST(parts.evaluations.in_flight() == 0);
  BOOST_TEST(parts.writer.record().individual(id)->stage == "lint");
  const IndividualId wrong = parts.breed({{"BLOCK", std::int64_t{7}}});  // no value of this tunable
  BOOST_TEST(parts.writer.record().individual(wrong)->stage == "lint");
}

// It would be measured, win its duels, and fail its confirmation.
BOOST_AUTO_TEST_CASE(a_kernel_that_does_not_claim_the_holdout_is_refused_before_it_is_compiled) {
  std::string source = softmax_source("softmax_plain");
  const std::string claim = "dtype == f32";
  source.replace(source.find(claim), claim.size(), claim + " && C % 4 == 0");
  Parts parts({}, {"holdout=cpu_holdout"});
  parts.take_seeds();
  const IndividualId id = parts.breed({}, source);
  const auto row = parts.writer.record().individual(id);
  BOOST_TEST(row->stage == "lint");
  BOOST_TEST(row->reason == "does not claim a workload of the holdout");
}

// Who wrote it sees the reason as the search begins, and not only a count.
BOOST_AUTO_TEST_CASE(why_a_seed_is_refused_is_told_at_once) {
  Simulation simulation;
  simulation.evaluate_instead = [](const Variant& variant) -> Expected<Evaluation> {
    return variant.manifest.name == "softmax_plain"
               ? rejection(Stage::lint, "out of range", "seed.cpp:3: BLOCK is out of range: use 64")
               : rejection(Stage::smoke, "wrong rows", "the rows");
  };
  Parts parts(simulation);
  std::vector<Event> told;
  parts.callbacks.event = [&](const Event& event) { told.push_back(event); };
  parts.take_seeds();
  (void)parts.breed({{"BLOCK", std::int64_t{7}}});  // rejected, but no seed
  std::erase_if(told, [](const Event& event) { return event.kind != "warning"; });
  std::ranges::sort(told, {}, &Event::individual);  // two workers evaluate them
  BOOST_TEST_REQUIRE(told.size() == 2U);
  BOOST_TEST(told[0].individual == 1);
  BOOST_TEST(told[0].text == "seed plain.cpp was rejected (lint): seed.cpp:3: BLOCK is out of range: use 64");
  BOOST_TEST(told[1].text == "seed fast.cpp was rejected (smoke): wrong rows");
}

BOOST_AUTO_TEST_CASE(a_seed_that_is_late_is_owed_once_more_and_then_rejected) {
  Simulation simulation;
  simulation.is_late = [](const Variant& variant, Stage) { return variant.manifest.name == "softmax_plain"; };
  Parts parts(simulation);
  parts.take_seeds();
  BOOST_TEST(parts.breeding.judged() == 2);
  BOOST_TEST(parts.second_tries.granted(1, Examination::search));
  BOOST_TEST(parts.writer.record().individual(1)->stage == "smoke");
}

BOOST_AUTO_TEST_CASE(what_an_earlier_session_left_is_owed_from_the_record) {
  Parts parts;
  parts.proposals.seeds({});
  Evaluations resumed(parts.config, parts.recorder, parts.breeding, parts.sources, parts.pipeline,
                      parts.second_tries, parts.faults);
  BOOST_TEST(resumed.has_pending());
  resumed.start_pending();
  parts.drain([&](const JobPtr& job) { resumed.returned(job, std::get<Evaluate>(job->work), {}); });
  BOOST_TEST(parts.breeding.judged() == 2);
}

BOOST_AUTO_TEST_CASE(the_pipeline_gives_back_at_once_what_nobody_waits_for) {
  Simulation simulation;
  simulation.evaluate_s = 0.05;
  Parts parts(simulation);
  for (const IndividualId id : parts.proposals.seeds({})) parts.evaluations.enqueue(id);
  parts.pipeline.abandon_waiting();
  parts.evaluations.start_pending();
  int abandoned = 0;
  parts.drain([&](const JobPtr& job) {
    abandoned += job->abandoned;
    parts.evaluations.lost();
  });
  BOOST_TEST(abandoned == 2);
  BOOST_TEST(parts.evaluations.in_flight() == 0);
  BOOST_TEST(parts.breeding.judged() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
