// SPDX-License-Identifier: Apache-2.0
// `--cover`: which specializations a range of sizes needs.
#include "engine/export/domain.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kTasks = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks";

struct Attention {
  Task task = load_task(kTasks / "attention_forward");
  Variant variant =
      load_variant(kTasks / "attention_forward/seeds/vectorised.cpp", task);  // requires D % 16 == 0
  Facts facts{{"num_cores", 2.0},
              {"l1_bytes", 32768.0},
              {"l2_bytes", 1048576.0},
              {"l3_bytes", 33554432.0},
              {"vector_bits", 256.0}};
  LauncherInput input{task, variant, facts, task.workloads("cpu_quick")->workloads};

  std::string trouble(const std::string& text) const {
    const auto ranges = parse_ranges("--cover", text, task);
    if (!ranges) return ranges.error().message;
    const auto covered = covered_workloads(input, *ranges);
    return covered ? "" : covered.error().message;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cover, Attention)

BOOST_AUTO_TEST_CASE(each_specialization_of_the_range_that_the_kernel_claims_is_there_once) {
  const auto ranges = parse_ranges("--cover", "D: 8-128 step 8, causal: 0-1, S_q: 1-1000000", task);
  BOOST_REQUIRE(ranges);
  const auto covered = covered_workloads(input, *ranges);
  BOOST_REQUIRE_MESSAGE(covered, (covered ? "" : covered.error().message));
  LauncherInput all = input;
  const std::size_t built = specialisations(input).size();
  all.covered = *covered;
  const auto served = specialisations(all);
  BOOST_TEST(served.size() == 16U);  // 8 head sizes, with and without the mask
  BOOST_TEST(served.size() == built + covered->size());
  std::set<std::string> names;
  for (const Specialisation& each : served) names.insert(each.suffix);
  BOOST_TEST(names.size() == 16U);
  BOOST_TEST(names.contains("D80_causal1"));
  for (const Workload& each : *covered) BOOST_TEST(serves(all, served, each));
}

BOOST_AUTO_TEST_CASE(what_is_not_understood_or_too_much_is_said) {
  BOOST_TEST(trouble("D: 16-128 step 16") == "");
  BOOST_TEST(trouble("D: 64") == "");
  BOOST_TEST(trouble("D: 16-256 step x2") == "");
  BOOST_TEST(contains(trouble("D: 0-64 step x2"), "'D: 0-64 step x2' never ends"));
  BOOST_TEST(contains(trouble("D 16-128"), "--cover: 'D 16-128' is not of the form NAME: FROM-TO step STEP"));
  BOOST_TEST(contains(trouble("E: 1-2"), "the task attention_forward has no dimension or parameter E"));
  BOOST_TEST(contains(trouble("D: 128-16"), "'D: 128-16' holds no value"));
  BOOST_TEST(contains(trouble("D: 16, D: 32"), "D is there twice"));
  BOOST_TEST(contains(trouble("D: 1-1000000"), "more than 200000 combinations"));
  BOOST_TEST(contains(trouble("D: 16-160000 step 16"), "more than 256 specializations would be built"));
}

BOOST_AUTO_TEST_SUITE_END()
