// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/metric_sets.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>

#include "evaluators/devices/cuda/run/counters.hpp"
#include "evaluators/devices/cuda/run/pc_sampling.hpp"

using namespace cultivar;

namespace {

boost::test_tools::assertion_result cupti_is_here(boost::unit_test::test_unit_id) {
  const auto cupti = cuda::load_cupti();
  boost::test_tools::assertion_result here(cupti.has_value());
  if (!cupti) here.message() << cupti.error().message;
  return here;
}
auto needs_cupti() {
  return boost::unit_test::precondition(cupti_is_here);
}

cuda::CounterPlan plan_of(const std::string& chip) {
  auto plan = cuda::CounterPlan::make(**cuda::load_cupti(), chip);
  BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
  return std::move(*plan);
}

// Data centre chips and their smaller sisters, from sm_80 to sm_120, as far as this CUPTI knows them.
std::vector<std::string> chips() {
  const auto known = cuda::CounterPlan::chips(**cuda::load_cupti());
  BOOST_REQUIRE_MESSAGE(known, (known ? "" : known.error().message));
  std::vector<std::string> wanted;
  for (const char* chip : {"GA100", "GA102", "AD102", "GH100", "GB100", "GB202"})
    if (std::find(known->begin(), known->end(), chip) != known->end()) wanted.emplace_back(chip);
  BOOST_REQUIRE(std::find(wanted.begin(), wanted.end(), "GH100") != wanted.end());
  return wanted;
}

std::vector<std::string> had(const cuda::CounterPlan& plan, bool full) {
  std::vector<std::string> metrics;
  for (const Counter& counter : counters())
    if (const std::string metric(counter.metric); (full || counter.quick) && plan.has(metric))
      metrics.push_back(metric);
  return metrics;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(metric_sets)

BOOST_AUTO_TEST_CASE(keys_and_metrics_are_each_there_once) {
  std::set<std::string_view> keys, metrics;
  for (const Counter& counter : counters()) {
    BOOST_TEST(keys.insert(counter.key).second, counter.key);
    BOOST_TEST(metrics.insert(counter.metric).second, counter.metric);
  }
  BOOST_TEST(std::ranges::count(counters(), true, &Counter::quick) > 0);
  BOOST_TEST(std::ranges::count(counters(), false, &Counter::quick) > 0);
}

BOOST_AUTO_TEST_CASE(values_come_back_by_key_and_what_is_no_number_does_not) {
  const CounterValues values = by_key({"dram__throughput.avg.pct_of_peak_sustained_elapsed", "unheard_of.sum",
                                       "smsp__issue_active.avg.pct_of_peak_sustained_active"},
                                      {12.5, 1.0, std::nan("")});
  BOOST_TEST(values.size() == 1u);
  BOOST_TEST(values.at("dram_pct") == 12.5);
}

BOOST_AUTO_TEST_CASE(a_stall_metric_is_a_reason_and_whether_it_was_exposed) {
  const auto all = cuda::stall_name("smsp__pcsamp_warps_issue_stalled_long_scoreboard");
  BOOST_TEST(all.reason == "long_scoreboard");
  BOOST_TEST(!all.exposed);
  const auto exposed = cuda::stall_name("smsp__pcsamp_warps_issue_stalled_gmma_not_issued");
  BOOST_TEST(exposed.reason == "gmma");
  BOOST_TEST(exposed.exposed);
  BOOST_TEST(cuda_profile_words().of_stall("gmma").about != "gmma");
  BOOST_TEST(cuda_profile_words().of_stall("brand_new").about == "brand_new");
}

BOOST_AUTO_TEST_CASE(every_counter_exists_on_every_chip_that_it_claims, *needs_cupti()) {
  for (const std::string& chip : chips()) {
    const cuda::CounterPlan plan = plan_of(chip);
    for (const Counter& counter : counters())
      if (counter.everywhere)
        BOOST_TEST(plan.has(std::string(counter.metric)), chip << " lacks " << counter.metric);
  }
  const cuda::CounterPlan hopper = plan_of("GH100");
  for (const Counter& counter : counters())
    BOOST_TEST(hopper.has(std::string(counter.metric)), "GH100 lacks " << counter.metric);
  BOOST_TEST(!hopper.has("sm__cycles_of_nonsense.sum"));
}

BOOST_AUTO_TEST_CASE(the_quick_set_takes_one_pass_and_the_full_one_a_few, *needs_cupti()) {
  for (const std::string& chip : chips())
    for (const bool full : {false, true}) {
      cuda::CounterPlan plan = plan_of(chip);
      const auto chosen = plan.choose(had(plan, full));
      BOOST_REQUIRE_MESSAGE(chosen, (chosen ? "" : chip + ": " + chosen.error().message));
      BOOST_TEST(!plan.image().empty());
      if (full)
        BOOST_TEST(plan.passes() <= 6u, chip);
      else
        BOOST_TEST(plan.passes() == 1u, chip);
      BOOST_TEST_MESSAGE(chip << (full ? " full: " : " quick: ") << plan.metrics().size() << " metrics, "
                              << plan.passes() << " passes, " << plan.image().size() << " bytes");
    }
}

BOOST_AUTO_TEST_CASE(an_unknown_chip_or_metric_is_an_error_that_names_the_call, *needs_cupti()) {
  const auto none = cuda::CounterPlan::make(**cuda::load_cupti(), "GX999");
  BOOST_REQUIRE(!none.has_value());
  BOOST_TEST(none.error().message.find("GX999") != std::string::npos);
  BOOST_TEST(none.error().message.find("cuptiProfilerHostInitialize") != std::string::npos,
             none.error().message);
  cuda::CounterPlan plan = plan_of("GH100");
  const auto wrong = plan.choose({"sm__cycles_of_nonsense.sum"});
  BOOST_REQUIRE(!wrong.has_value());
  BOOST_TEST(
      wrong.error().message.find("cuptiProfilerHostConfigAddMetrics: CUPTI_ERROR") != std::string::npos,
      wrong.error().message);
}

BOOST_AUTO_TEST_CASE(without_permission_the_error_says_what_to_do, *needs_cupti()) {
  const auto refused =
      (*cuda::load_cupti())->check(cuda::cupti::insufficient_privileges, "RangeProfilerStart");
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().kind == ErrorKind::denied));
  for (const char* words : {"ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0", "root",
                            "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "cuptiRangeProfilerStart"})
    BOOST_TEST(refused.error().message.find(words) != std::string::npos, words);
}

BOOST_AUTO_TEST_SUITE_END()
