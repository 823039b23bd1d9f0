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

BOOST_AUTO_TEST_SUITE_END()
