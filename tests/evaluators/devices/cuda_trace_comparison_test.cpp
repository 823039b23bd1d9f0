// SPDX-License-Identifier: Apache-2.0
// What CUPTI saw of a run, compared with the plan.
#include "evaluators/devices/cuda/run/kernel_trace.hpp"

#include <boost/test/unit_test.hpp>

#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::cuda;
using cultivar::testing::contains;

namespace {

PlannedKernel planned(const std::string& name, std::int64_t blocks, std::int64_t threads) {
  PlannedKernel kernel;
  kernel.kernel = name;
  kernel.launch.set("grid", {blocks, 1, 1});
  kernel.launch.set("block", {threads, 1, 1});
  return kernel;
}

TracedKernel traced(const std::string& name, std::int32_t blocks, std::int32_t threads, double begin_us,
                    double end_us) {
  return {name, 1e-6 * begin_us, 1e-6 * end_us, {blocks, 1, 1}, {threads, 1, 1}};
}

struct TwoKernels {
  TwoKernels() { plan.kernels = {planned("rows", 512, 256), planned("finish", 1, 128)}; }
  Plan plan;
  const TracedKernel rows = traced("rows", 512, 256, 0, 100), finish = traced("finish", 1, 128, 102, 110);
  std::optional<Fault> compared(const std::vector<TracedKernel>& seen, double event_us = 112,
                                bool foreign = false) const {
    return compare_trace(plan, foreign, seen, 1e-6 * event_us);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_trace_comparison, TwoKernels)

BOOST_AUTO_TEST_CASE(the_kernels_of_the_plan_in_any_order_beside_the_judges_own) {
  BOOST_TEST(!compared({rows, finish}).has_value());
  BOOST_TEST(!compared({finish, traced("cultivar_stamp", 132, 32, -9, -8), rows}).has_value());
}

BOOST_AUTO_TEST_CASE(a_name_of_a_kernel_that_was_unloaded_blames_nobody) {
  BOOST_TEST(!compared({rows, traced("softmax", 1, 128, 102, 110)}).has_value());
}

BOOST_AUTO_TEST_CASE(missing_records_blame_nobody) {
  BOOST_TEST(!compared({}).has_value());
  BOOST_TEST(!compared({rows}).has_value());
}

BOOST_AUTO_TEST_CASE(another_kernel_or_one_more_is_a_fault) {
  const auto more = compared({rows, finish, traced("extra", 4, 64, 111, 112)});
  BOOST_REQUIRE(more.has_value());
  BOOST_TEST((more->kind == Fault::Kind::forbidden_call));
  BOOST_TEST(contains(more->detail, "extra of 4 x 1 x 1 blocks of 64 x 1 x 1"), more->detail);
  BOOST_TEST(compared({rows, rows}).has_value());
  BOOST_TEST(compared({rows, traced("finish", 2, 128, 102, 110)}).has_value());
  BOOST_TEST(
      !compared({rows, rows, traced("more", 1, 1, 100, 101)}, 112, true).has_value());  // a library may
}

BOOST_AUTO_TEST_CASE(events_that_end_early_or_late_are_a_fault) {
  const auto early = compared({rows, finish}, 60);
  BOOST_REQUIRE(early.has_value());
  BOOST_TEST((early->kind == Fault::Kind::idle_activity));
  BOOST_TEST(compared({rows, finish}, 3000).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
