// SPDX-License-Identifier: Apache-2.0
// What `status` shows of a search that waits.

#include <boost/test/unit_test.hpp>

#include "engine/store/summary.hpp"
#include "evaluators/system/clock.hpp"

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(momentary)

BOOST_AUTO_TEST_CASE(a_pause_is_shown_with_its_ages_while_a_process_holds_the_run) {
  const std::string body = to_body({3,
                                    Pause{unix_now() - 60.0, unix_now() + 30.0, "srun: no node"},
                                    {{"a card", 2, true}, {"another card", 1, false}}});
  Summary s;
  s.state = "running";
  set_momentary(s, body);
  BOOST_TEST(s.challengers == 3);
  BOOST_REQUIRE(s.waiting.has_value());
  BOOST_TEST(s.waiting->for_s >= 60.0);
  BOOST_TEST(s.waiting->for_s < 70.0);
  BOOST_TEST(s.waiting->next_try_s <= 30.0);
  BOOST_TEST(s.waiting->next_try_s > 20.0);
  BOOST_TEST(s.waiting->why == "srun: no node");
  BOOST_REQUIRE(s.workers.size() == 2U);
  BOOST_TEST(s.workers[1].device == "another card");
  BOOST_TEST(s.workers[1].workers == 1);
  BOOST_TEST(!s.workers[1].measures);
  Summary stopped;
  stopped.state = "stopped";
  set_momentary(stopped, body);
  BOOST_TEST(stopped.challengers == 3);
  BOOST_TEST(!stopped.waiting);
  BOOST_TEST(stopped.workers.empty());
}

BOOST_AUTO_TEST_CASE(a_duel_is_shown_while_it_goes_on) {
  const std::string body = to_body({3, {}, {}, {}, DuelNow{7, 3, "14 of at most 2000 pairs, 3.1 of 10 s"}});
  Summary s;
  s.state = "running";
  set_momentary(s, body);
  BOOST_REQUIRE(s.duel.has_value());
  BOOST_TEST(s.challengers == 2);  // the other two wait
  BOOST_TEST(s.duel->challenger == 7);
  BOOST_TEST(s.duel->incumbent == 3);
  BOOST_TEST(s.duel->progress == "14 of at most 2000 pairs, 3.1 of 10 s");
  Summary stopped;
  stopped.state = "stopped";
  set_momentary(stopped, body);
  BOOST_TEST(!stopped.duel);
  BOOST_TEST(stopped.challengers == 3);
}

BOOST_AUTO_TEST_CASE(the_step_of_the_first_kernel_is_shown_while_a_process_holds_the_run) {
  const std::string body = to_body({0, {}, {}, {}, {}, "#1 is being compiled (12 s)"});
  Summary s;
  s.state = "running";
  set_momentary(s, body);
  BOOST_TEST(s.step == "#1 is being compiled (12 s)");
  s = {};
  s.state = "stopped";
  set_momentary(s, body);
  BOOST_TEST(s.step == "");
}

BOOST_AUTO_TEST_CASE(a_record_of_an_earlier_version_and_a_search_that_works_wait_for_nothing) {
  Summary s;
  s.state = "running";
  set_momentary(s, "");
  set_momentary(s, to_body(Momentary{}));
  BOOST_TEST(s.challengers == 0);
  BOOST_TEST(!s.waiting);
  set_momentary(s, to_body({0, Pause{unix_now() - 9.0, unix_now() - 1.0, "x"}, {}}));
  BOOST_TEST(s.waiting->next_try_s == 0.0);  // it is trying
}

BOOST_AUTO_TEST_SUITE_END()
