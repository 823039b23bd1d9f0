// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 170 s, configs
// configs/recorded_demo.yaml, unchanged except for a workload that takes long on any machine: a real model's
// recorded kernels, compiled, checked and timed on this machine.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(recorded_demo)

// The prompts described 512-bit vectors, and the model wrote for them.
boost::test_tools::assertion_result has_them(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result result(__builtin_cpu_supports("avx512f") != 0);
  if (!result) result.message() << "this processor has no AVX-512, for which the answers were written";
  return result;
}

BOOST_AUTO_TEST_CASE(recorded_answers_become_kernels_here_that_are_right_and_faster_than_the_seed,
                     *boost::unit_test::precondition(has_them)) {
  const TemporaryFolder folder;
  const fs::path demo = CULTIVAR_SOURCE_DIR "/configs/recorded_demo.yaml";
  copy_task("attention_forward", folder / "attention", "      - {B: 1, H: 10, S_q: 1024, D: 64}\n");
  const auto run = cultivar_in(folder.path(),
                               {"run", demo.string(), "--run-dir", "demo", "--set", "budget.evaluations=8",
                                "--set", "task=" + (folder / "attention").string(), "--json"},
                               700.0);
  BOOST_TEST_CONTEXT(run.err) {
    BOOST_TEST_REQUIRE(run.exit == 0);
    const auto of = [&](int id) {
      return facts(cultivar_in(folder.path(), {"show", "demo", std::to_string(id), "--json"}));
    };
    // How many of the recorded answers apply depends on which kernels this machine has measured when it asks.
    const int evaluated = facts(cultivar_in(folder.path(), {"status", "demo", "--json"}))["evaluations"];
    int measured = 0;
    double best = 0.0;
    for (int id = 2; id <= evaluated; ++id) {
      const auto shown = of(id);
      if (shown["operator"] == "tune" || shown["stage"] != "measure") continue;
      ++measured;
      best = std::max(best, shown["fitness"].get<double>());
    }
    BOOST_TEST(measured >= 2);
    // The seed has scalar loops; the recorded kernels use vectors and blocks and are about ten times as fast.
    BOOST_TEST(best > 2.0 * of(1)["fitness"].get<double>());
  }
  BOOST_TEST(cultivar_in(folder.path(), {"replay", "demo"}).exit == 0);
}

BOOST_AUTO_TEST_SUITE_END()
