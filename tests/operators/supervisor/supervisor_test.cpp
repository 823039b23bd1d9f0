// SPDX-License-Identifier: Apache-2.0
#include "operators/supervisor/supervisor.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

namespace {

const std::set<Answer> kAll{Answer::direction, Answer::parent, Answer::ancestor,
                            Answer::tuning,    Answer::plan,   Answer::reset};

// All triggers off but those that a test turns on.
SupervisorOptions only(const std::function<void(SupervisorOptions&)>& change) {
  SupervisorOptions options{
      .evaluations = 0, .device_s = 0, .usd = 0, .failures = 0, .repetitions = 0, .trials = 0, .roofline = 0};
  change(options);
  return options;
}

struct Search {
  explicit Search(const std::function<void(SupervisorOptions&)>& change)
      : supervisor(only(change), {"tune", "mutate with m"}) {
    supervisor.promoted(0.1, 0);
  }
  void judge(const Findings& findings, Supervisor::Judged judged = {}) {
    supervisor.judged(findings, judged);
  }
  // So many measured individuals without a gain.
  void quiet(int count, std::int64_t under = 0) {
    for (int i = 0; i < count; ++i)
      judge({.measured = true, .fitness = 1.0, .device_s = 1.0}, {.under = under});
  }
  // The next intervention, begun and ended.
  Answer intervene() {
    const auto due = supervisor.due(kAll);
    BOOST_REQUIRE(due);
    supervisor.begin(*due);
    quiet(100, due->number);
    BOOST_REQUIRE(supervisor.over());
    supervisor.end();
    return due->answer;
  }

  Supervisor supervisor;
};

Findings rejected(Stage stage) {
  Findings findings;
  findings.rejected_at = stage;
  return findings;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(supervisor)

BOOST_AUTO_TEST_CASE(no_promotion_during_evaluations_device_time_or_dollars) {
  Search by_count([](auto& o) { o.evaluations = 10; });
  by_count.quiet(9);
  BOOST_TEST(!by_count.supervisor.due(kAll));
  by_count.quiet(1);
  const auto due = by_count.supervisor.due(kAll);
  BOOST_REQUIRE(due);
  BOOST_TEST((due->trigger == Trigger::evaluations));
  BOOST_TEST(due->seen == 10.0);
  BOOST_TEST(due->number == 1);

  Search by_time([](auto& o) { o.device_s = 20.0; });
  by_time.quiet(15);
  by_time.supervisor.spent(0.0, 4.5);  // a question's tools
  BOOST_TEST(!by_time.supervisor.due(kAll));
  by_time.quiet(1);
  BOOST_TEST((by_time.supervisor.due(kAll)->trigger == Trigger::device_time));

  Search by_cost([](auto& o) { o.usd = 1.0; });
  by_cost.supervisor.spent(0.5, 0.0);
  BOOST_TEST(!by_cost.supervisor.due(kAll));
  by_cost.judge({.measured = true}, {.usd = 0.5});
  BOOST_TEST((by_cost.supervisor.due(kAll)->trigger == Trigger::cost));
}

BOOST_AUTO_TEST_CASE(a_promotion_starts_all_counts_anew_and_nothing_is_due_before_the_first) {
  Search search([](auto& o) { o.evaluations = 10; });
  search.quiet(9);
  search.supervisor.promoted(0.2, 0);
  search.quiet(9);
  BOOST_TEST(!search.supervisor.due(kAll));
  Supervisor fresh(only([](auto& o) { o.evaluations = 1; }), {"tune"});
  fresh.judged({.measured = true}, {});
  BOOST_TEST(!fresh.due(kAll));
}

BOOST_AUTO_TEST_CASE(failures_of_one_kind_in_a_row) {
  Search search([](auto& o) { o.failures = 3; });
  const auto fail = [&](Stage stage, std::size_t arm = 1) { search.judge(rejected(stage), {.arm = arm}); };
  fail(Stage::compile);
  fail(Stage::compile);
  fail(Stage::smoke);       // of another kind
  fail(Stage::compile, 0);  // of another operator
  fail(Stage::smoke);
  Findings twin = rejected(Stage::screen);
  twin.duplicate_of = 1;
  search.judge(twin, {.arm = 1});  // a duplicate is no failure
  BOOST_TEST(!search.supervisor.due(kAll));
  fail(Stage::smoke);
  const auto due = search.supervisor.due(kAll);
  BOOST_REQUIRE(due);
  BOOST_TEST((due->trigger == Trigger::failures));
  BOOST_TEST(due->subject == "mutate with m: smoke");
  search.judge({.measured = true}, {.arm = 1});
  BOOST_TEST(!search.supervisor.due(kAll));
}

BOOST_AUTO_TEST_CASE(the_same_idea_again) {
  Search search([](auto& o) { o.repetitions = 3; });
  Findings twin = rejected(Stage::screen);
  twin.duplicate_of = 1;
  search.judge(twin);
  search.supervisor.asked(true);
  search.quiet(4);
  search.judge(twin);  // the first is no longer among the latest six
  BOOST_TEST(!search.supervisor.due(kAll));
  search.supervisor.asked(true);
  search.supervisor.asked(true);
  BOOST_TEST((search.supervisor.due(kAll)->trigger == Trigger::repetition));
}

BOOST_AUTO_TEST_CASE(an_operator_that_stopped_paying) {
  Search search([](auto& o) { o.trials = 5; });
  for (int i = 0; i < 4; ++i) search.judge({.measured = true}, {.arm = 1});
  search.judge({.measured = true}, {.arm = 1, .gain = 0.1});
  for (int i = 0; i < 4; ++i) search.judge({.measured = true}, {.arm = 1});
  BOOST_TEST(!search.supervisor.due(kAll));
  search.judge({.measured = true}, {.arm = 1});
  const auto due = search.supervisor.due(kAll);
  BOOST_REQUIRE(due);
  BOOST_TEST((due->trigger == Trigger::unprofitable));
  BOOST_TEST(due->subject == "mutate with m");
}

BOOST_AUTO_TEST_CASE(the_roofline_is_told_once_for_each_best) {
  Search search([](auto& o) { o.roofline = 0.9; });
  BOOST_TEST(!search.supervisor.due(kAll));
  search.supervisor.promoted(0.93, 0);
  BOOST_TEST((search.supervisor.due(kAll)->trigger == Trigger::roofline));
  BOOST_TEST((search.intervene() == Answer::tuning));
  BOOST_TEST(!search.supervisor.due(kAll));
  search.supervisor.promoted(0.95, 0);
  BOOST_TEST(search.supervisor.due(kAll).has_value());
}

BOOST_AUTO_TEST_CASE(answers_grow_until_a_promotion_and_only_possible_ones_are_given) {
  Search search([](auto& o) { o.evaluations = 10; });
  std::vector<Answer> given;
  for (int i = 0; i < 7; ++i) {
    search.quiet(10);
    given.push_back(search.intervene());
  }
  using enum Answer;
  BOOST_TEST((given == std::vector<Answer>{direction, parent, ancestor, tuning, plan, reset, direction}));
  BOOST_TEST(search.supervisor.given(direction) == 2);
  search.supervisor.promoted(0.1, 0);
  BOOST_TEST(search.supervisor.given(direction) == 0);
  search.quiet(10);
  BOOST_TEST((search.supervisor.due({ancestor, tuning})->answer == ancestor));
  BOOST_TEST(!search.supervisor.due({}));
}

BOOST_AUTO_TEST_CASE(an_intervention_ends_after_its_proposals_or_a_promotion) {
  Search search([](auto& o) {
    o.evaluations = 10;
    o.term = 3;
  });
  search.quiet(10);
  search.supervisor.begin(*search.supervisor.due(kAll));
  BOOST_TEST(!search.supervisor.due(kAll));
  search.quiet(5);  // proposed before it
  BOOST_TEST(!search.supervisor.over());
  search.judge({.measured = true}, {.gain = 0.07, .under = 1});
  search.judge(rejected(Stage::compile), {.under = 1});
  BOOST_TEST(!search.supervisor.over());
  search.judge({.measured = true}, {.gain = 0.03, .under = 1});
  BOOST_TEST((search.supervisor.over() == InterventionResult{1, 3, 2, 0, 0.07}));
  search.supervisor.end();
  BOOST_TEST(!search.supervisor.over());

  search.quiet(10);
  search.supervisor.begin(*search.supervisor.due(kAll));
  search.judge({.measured = true}, {.gain = 0.2, .under = 2});
  search.supervisor.promoted(0.1, 2);
  BOOST_TEST((search.supervisor.over() == InterventionResult{2, 1, 1, 1, 0.2}));
  search.supervisor.end();

  search.quiet(10);
  search.supervisor.begin(*search.supervisor.due(kAll));
  search.quiet(12);  // nothing of its own is evaluated
  BOOST_TEST((search.supervisor.over() == InterventionResult{3, 0, 0, 0, 0.0}));
}

BOOST_AUTO_TEST_CASE(a_new_line_goes_on_while_it_gets_faster) {
  Search search([](auto& o) {
    o.evaluations = 10;
    o.term = 3;
  });
  const auto line = [&](double fitness, double gain) {
    search.judge({.measured = true, .fitness = fitness},
                 {.gain = gain, .under = search.supervisor.current()->number});
  };
  search.quiet(10);
  search.supervisor.begin(*search.supervisor.due({Answer::ancestor}));
  for (const double fitness : {1.0, 0.9, 1.1, 1.0, 1.2}) line(fitness, fitness > 1.0 ? 0.1 : 0.0);
  search.supervisor.promoted(0.1, 0);  // of the old line
  line(1.1, 0.2);                      // faster than its parent, not than the line
  line(1.2, 0.0);
  BOOST_TEST(!search.supervisor.over());
  line(1.0, 0.0);
  BOOST_TEST((search.supervisor.over() == InterventionResult{1, 8, 8, 0, 0.2}));
  search.supervisor.end();

  search.quiet(10);
  search.supervisor.begin(*search.supervisor.due({Answer::reset}));
  for (int i = 1; i < 24; ++i) line(i, 0.1);
  BOOST_TEST(!search.supervisor.over());
  line(24.0, 0.1);  // eight terms
  BOOST_TEST(search.supervisor.over().has_value());
  search.supervisor.end();

  search.quiet(10);
  search.supervisor.begin(*search.supervisor.due({Answer::ancestor}));
  search.supervisor.promoted(0.1, 3);
  BOOST_TEST((search.supervisor.over() == InterventionResult{3, 0, 0, 1, 0.0}));
}

BOOST_AUTO_TEST_CASE(the_second_answer_comes_after_half_of_the_patience_and_is_another_whatever_the_trigger) {
  Search search([](auto& o) {
    o.evaluations = 10;
    o.failures = 4;
  });
  search.quiet(10);
  BOOST_TEST((search.intervene() == Answer::direction));
  search.quiet(4);
  BOOST_TEST(!search.supervisor.due(kAll));
  for (int i = 0; i < 4; ++i) search.judge(rejected(Stage::compile), {.arm = 1});
  BOOST_TEST((search.supervisor.due(kAll)->trigger == Trigger::failures));
  BOOST_TEST((search.intervene() == Answer::parent));
  search.quiet(5);
  BOOST_TEST((search.intervene() == Answer::ancestor));
  search.supervisor.promoted(0.1, 0);
  search.quiet(9);
  BOOST_TEST(!search.supervisor.due(kAll));
}

BOOST_AUTO_TEST_CASE(an_inactive_supervisor_decides_nothing) {
  Search search([](auto& o) {
    o.evaluations = 1;
    o.active = false;
  });
  search.quiet(10);
  BOOST_TEST(!search.supervisor.due(kAll));
}

BOOST_AUTO_TEST_CASE(every_trigger_and_answer_is_read_by_its_name) {
  for (std::size_t i = 0; i < kTriggers; ++i)
    BOOST_TEST((trigger_named(name_of(static_cast<Trigger>(i))) == static_cast<Trigger>(i)));
  for (std::size_t i = 0; i < kAnswers; ++i)
    BOOST_TEST((answer_named(name_of(static_cast<Answer>(i))) == static_cast<Answer>(i)));
  BOOST_TEST(!trigger_named("boredom"));
}

BOOST_AUTO_TEST_SUITE_END()
