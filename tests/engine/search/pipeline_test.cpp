// SPDX-License-Identifier: Apache-2.0
// The pipeline where compilers and measurements share the cores, with workers that do not start.
#include "engine/search/pipeline.hpp"

#include <boost/test/unit_test.hpp>

#include "support/search_parts.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

Simulation unreliable(int workers, std::function<bool(int)> does_not_start) {
  Simulation simulation;
  simulation.quiet = true;
  simulation.device_workers = workers;
  simulation.does_not_start = std::move(does_not_start);
  return simulation;
}

JobPtr measured(SearchParts& parts) {
  parts.pipeline.measure(std::make_shared<Job>(Evaluate{}, 1));
  const JobPtr job = parts.pipeline.next(Clock::now() + std::chrono::seconds(60));
  BOOST_REQUIRE(job);
  return job;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pipeline)

BOOST_AUTO_TEST_CASE(compilers_do_not_wait_for_a_measurement_whose_worker_did_not_start) {
  std::atomic<int> starts{0};
  SearchParts parts(unreliable(1, [&](int) { return ++starts == 2; }));
  BOOST_TEST(!measured(parts)->trouble);
  BOOST_TEST(measured(parts)->trouble.has_value());
  BOOST_TEST_REQUIRE(parts.pipeline.try_begin_loop_work());  // a compilation would wait for ever
  parts.pipeline.end_loop_work();
  BOOST_TEST(!measured(parts)->trouble);
}

BOOST_AUTO_TEST_CASE(compilers_do_not_wait_for_a_measurement_that_another_worker_took) {
  SearchParts parts(unreliable(2, [](int worker) { return worker == 1; }));
  // The worker that does not start may be the first to look at any of them.
  for (int i = 0; i < 20; ++i) measured(parts);
  BOOST_TEST(parts.pipeline.try_begin_loop_work());
  parts.pipeline.end_loop_work();
}

BOOST_AUTO_TEST_CASE(the_board_tells_what_the_furthest_kernel_is_at_and_for_how_long) {
  const Job first(Evaluate{}, 1), second(Evaluate{}, 2), third(Confirm{}, 3);
  WorkInProgress board;
  BOOST_TEST(board.step(0.0) == "");
  board.put(first, InFlight::Doing::waiting_for_compiler);
  BOOST_TEST(board.step(0.0) == "#1 waits for a compiler (0 s)");
  BOOST_TEST(board.step(5.0) == "");
  board.put(second, InFlight::Doing::compiling);
  BOOST_TEST(board.step(0.0) == "#2 is being compiled (0 s)");
  board.put(second, InFlight::Doing::waiting_for_device);
  BOOST_TEST(board.step(0.0) == "#2 is compiled and waits for the device (0 s)");
  board.put(third, InFlight::Doing::compiling);
  board.note(third, "for its confirmation");
  BOOST_TEST(board.step(0.0) == "#3 is being compiled for its confirmation (0 s)");
  board.put(first, InFlight::Doing::evaluating);
  BOOST_TEST(board.step(0.0) == "#1 is being evaluated (0 s)");
  board.note(first, "sweep R3000");
  BOOST_TEST(board.step(0.0) == "#1 is being evaluated: sweep R3000 (0 s)");
  board.put(third, InFlight::Doing::confirmation);
  BOOST_TEST(board.step(0.0) == "");  // which is named instead
}

BOOST_AUTO_TEST_SUITE_END()
