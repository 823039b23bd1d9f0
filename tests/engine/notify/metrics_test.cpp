// SPDX-License-Identifier: Apache-2.0
// The text format of Prometheus, and its file.
#include "engine/notify/metrics.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>

#include "support/command.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;

BOOST_FIXTURE_TEST_SUITE(metrics, TemporaryFolder)

BOOST_AUTO_TEST_CASE(help_and_type_come_once_and_labels_are_escaped) {
  const std::string text =
      prometheus_text({{"a_total", "Counts.", Metric::Kind::counter, {{"stage", "x"}}, 3},
                       {"a_total", "Counts.", Metric::Kind::counter, {{"stage", "y"}}, 4},
                       {"b", "Is.", Metric::Kind::gauge, {{"run", "q\"\\\n"}}, 0.5},
                       {"c", "Bare.", Metric::Kind::gauge, {}, 1e18}});
  BOOST_TEST(
      text ==
      "# HELP a_total Counts.\n# TYPE a_total counter\na_total{stage=\"x\"} 3\na_total{stage=\"y\"} 4\n"
      "# HELP b Is.\n# TYPE b gauge\nb{run=\"q\\\"\\\\\\n\"} 0.5\n"
      "# HELP c Bare.\n# TYPE c gauge\nc 1e+18\n");
}

BOOST_AUTO_TEST_CASE(the_newest_text_is_in_the_file_and_a_failure_is_told_once) {
  const auto file = path() / "sub" / "cultivar.prom";
  {
    MetricsFile metrics(file);
    for (int i = 0; i <= 100; ++i) metrics.put("n " + std::to_string(i) + "\n");
  }
  BOOST_TEST(read_text(file) == "n 100\n");
  write_text(path() / "in_the_way", "");
  MetricsFile metrics(path() / "in_the_way" / "cultivar.prom");
  metrics.put("n 1\n");
  std::string trouble;
  for (int i = 0; i < 100 && trouble.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    trouble = metrics.trouble();
  }
  BOOST_TEST(contains(trouble, "in_the_way"), trouble);
  BOOST_TEST(metrics.trouble().empty());
}

BOOST_AUTO_TEST_SUITE_END()
