// SPDX-License-Identifier: Apache-2.0
// The contents of a report: its numbers from a real search with the simulated evaluator, and the picture.
#include <boost/test/unit_test.hpp>
#include <random>

#include "engine/report/chart.hpp"
#include "engine/report/event_file.hpp"
#include "engine/store/summary.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

const std::atomic<bool> kNever{false};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t number = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++number;
  return number;
}

// Where the line of the best kernels begins to go: "M72.0 300.0H...".
std::vector<double> heights(const std::string& svg) {
  const std::size_t from = svg.find("class=\"line\" d=\"M") + 17;
  const std::string path = svg.substr(from, svg.find('"', from) - from);
  std::vector<double> all{std::stod(path.substr(path.find(' ')))};
  for (std::size_t at = path.find('V'); at != std::string::npos; at = path.find('V', at + 1))
    all.push_back(std::stod(path.substr(at + 1)));
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(report)

BOOST_AUTO_TEST_CASE(a_story_counts_what_the_record_counts_at_the_pace_of_the_beginning) {
  ScratchFolder folder;
  const auto run = folder.path() / "run";
  Simulation exact;
  exact.noise = 0.0;
  const Config config = softmax_config(folder.path() / "config", {"budget.evaluations=30"});
  BOOST_REQUIRE(begin_search(config, run, simulated_runtime(exact), {}, kNever));
  exact.pace = 0.5;  // a card half as fast from here on
  BOOST_REQUIRE(resume_search(run, {"budget.evaluations=60"}, simulated_runtime(exact), {}, kNever));

  const auto record = Record::open(run);
  BOOST_REQUIRE(record);
  const RunReport run_report = tell(*record);
  const Summary& summary = run_report.summary;
  BOOST_TEST(run_report.sessions == 2);
  BOOST_TEST(run_report.judged.size() == static_cast<std::size_t>(summary.evaluations));
  BOOST_TEST_REQUIRE(!run_report.steps.empty());
  BOOST_TEST(run_report.steps.size() == static_cast<std::size_t>(summary.promotions));
  BOOST_TEST(run_report.steps.back().id == summary.best->id);
  Yield all;
  for (const auto& [who, yield] : run_report.yields) {
    all.measured += yield.measured;
    all.rejected += yield.rejected;
    all.promoted += yield.promoted;
    all.challengers += yield.challengers;
  }
  BOOST_TEST(all.measured == summary.measured);
  BOOST_TEST(all.measured + all.rejected == summary.evaluations);
  BOOST_TEST(all.promoted == summary.promotions);
  std::int64_t challengers = 0;  // the first best had no duel
  record->each_individual(
      [&](const IndividualRow& row) { challengers += !record->duels(row.individual.id).empty(); });
  BOOST_TEST(all.challengers == challengers);
  std::int64_t refused = 0;
  for (const auto& [reason, times] : run_report.rejections) refused += times;
  BOOST_TEST(refused == all.rejected);
  BOOST_TEST(run_report.paced);

  // No kernel of the second session looks slow only because of its card.
  int later = 0;
  for (const JudgedKernel& kernel : run_report.judged) {
    const auto row = record->individual(kernel.id);
    if (kernel.fitness <= 0.0) continue;
    const bool second = kernel.id > 34;  // what was in flight at the stop may be of either
    if (second)
      BOOST_TEST(kernel.fitness == 2.0 * row->individual.fitness, boost::test_tools::tolerance(1e-9));
    later += second;
  }
  BOOST_TEST(later > 0);
}

BOOST_AUTO_TEST_CASE(a_picture_has_every_kernel_the_best_and_the_contenders) {
  RunReport run_report;
  run_report.summary.run = "mine <&> yours";
  run_report.summary.elapsed_s = 600.0;
  run_report.judged = {{1, "seed", 10.0, 100.0}, {2, "tune", 60.0, 0.0},          {3, "tune", 120.0, 150.0},
                       {4, "<b>", 300.0, 140.0}, {5, "tune", 500.0, 160.0, true}, {6, "tune", 550.0, 60.0}};
  run_report.steps = {{1, 1, 10.0, 100.0}, {3, 3, 120.0, 150.0}};
  run_report.contenders = {{"cudnn", 130.0}};
  const std::string svg = running_best_chart(run_report, "TFLOPS");
  BOOST_TEST(count(svg, "<title>") == 5u);
  BOOST_TEST(count(svg, ", failed confirmation</title>") == 1u);
  BOOST_TEST(svg.find(">slower</text>") == std::string::npos);  // all are on the scale
  BOOST_TEST(count(svg, "class=\"rejected\"") == 2u);           // one kernel, and the legend's
  BOOST_TEST(svg.find("mine &lt;&amp;&gt; yours") != std::string::npos);
  BOOST_TEST(svg.find("<b>") == std::string::npos);
  BOOST_TEST(svg.find(">130 cudnn<") != std::string::npos);
  BOOST_TEST(svg.find(">150 best<") != std::string::npos);
  BOOST_TEST(svg.find("minutes of search") != std::string::npos);
  BOOST_TEST(svg.find(">-0<") == std::string::npos);
  const auto at = heights(svg);
  BOOST_TEST_REQUIRE(at.size() == 2u);
  BOOST_TEST(at[1] < at[0]);  // up
  BOOST_TEST(svg.find("logarithmic") == std::string::npos);

  run_report.judged[0].fitness = 130.0;  // with the first best nearer, the scale leaves the slowest out
  run_report.steps[0].fitness = 130.0;
  BOOST_TEST(running_best_chart(run_report, "TFLOPS").find(">slower</text>") != std::string::npos);

  run_report.judged.push_back({7, "tune", 400.0, 2.0});
  BOOST_TEST(running_best_chart(run_report, "TFLOPS").find("logarithmic") != std::string::npos);
  BOOST_TEST(running_best_chart({}, "TFLOPS").find("nothing has been measured") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_picture_of_a_record_that_was_changed_is_still_a_picture) {
  RunReport run_report;
  run_report.summary.run = "a\x1b]0;title\x07";
  run_report.summary.elapsed_s = 1e300;
  run_report.judged = {
      {1, "\x1b[2J</title><script>", 10.0, 5e-324}, {2, "\xff", 20.0, 1e300}, {3, "tune", 30.0, 7.0}};
  run_report.steps = {{3, 3, 30.0, 7.0}};
  run_report.contenders = {{"a\x9b&'", 5e-324}, {"b", 8.0}};
  const std::string svg = running_best_chart(run_report, "\x1bGB/s");
  for (const char& c : svg) BOOST_TEST_REQUIRE((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
  BOOST_TEST(svg.find_first_of("\xff\x9b") == std::string::npos);
  BOOST_TEST(svg.find("<script") == std::string::npos);
  BOOST_TEST(svg.find("\\x1b[2J&lt;/title&gt;") != std::string::npos);
  BOOST_TEST(svg.size() < 20'000U);
  BOOST_TEST(round_values(1e300, 1.0000000000000002e300, 8).size() <= 9U);
}

BOOST_AUTO_TEST_CASE(many_dots_in_one_place_are_one) {
  RunReport run_report;
  run_report.summary.elapsed_s = 86400.0;
  for (int i = 0; i < 200000; ++i)
    run_report.judged.push_back({i + 1, "tune", 86400.0 * i / 200000, 100.0 + i % 7});
  const std::string svg = running_best_chart(run_report, "TFLOPS");
  BOOST_TEST(count(svg, "<circle") > 1000u);
  BOOST_TEST(count(svg, "<circle") < 5000u);
}

BOOST_AUTO_TEST_CASE(an_axis_has_numbers_that_people_count_in) {
  const auto near = [](double low, double high, int most, const std::vector<double>& expected) {
    const auto values = round_values(low, high, most);
    BOOST_TEST_REQUIRE(values.size() == expected.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      BOOST_TEST(std::abs(values[i] - expected[i]) < 1e-9 * (1.0 + std::abs(expected[i])));
  };
  near(0.0, 10.0, 5, {0, 2, 4, 6, 8, 10});
  near(623.0, 701.0, 8, {630, 640, 650, 660, 670, 680, 690, 700});
  near(0.0, 0.0, 5, {});
}

BOOST_AUTO_TEST_CASE(the_picture_of_a_hundred_thousand_kernels_is_below_a_megabyte) {
  RunReport many;
  many.summary.elapsed_s = 1e5;
  std::mt19937 random(1);
  std::uniform_real_distribution<> any(0.0, 1.0);
  for (IndividualId id = 1; id <= 100'000; ++id)
    many.judged.push_back({id, "operator" + std::to_string(id % 7), static_cast<double>(id),
                           any(random) < 0.2 ? 0.0 : 100.0 * any(random), any(random) < 0.01});
  const std::string svg = running_best_chart(many, "GFLOPS");
  BOOST_TEST(svg.size() < 1'000'000u);
  BOOST_TEST(count(svg, "<circle") > 1000u);
}

BOOST_AUTO_TEST_CASE(records_of_an_event_file_have_the_checksums_of_their_format) {
  BOOST_TEST(crc32c("123456789") == 0xE3069283U);            // the check value of CRC-32C
  BOOST_TEST(crc32c(std::string(32, '\0')) == 0x8A9136AAU);  // RFC 3720, B.4
  const std::string record = tf_record("abc");
  BOOST_TEST(record.size() == 8U + 4U + 3U + 4U);
  BOOST_TEST(record.substr(0, 8) == std::string("\3\0\0\0\0\0\0\0", 8));
  BOOST_TEST(record.substr(12, 3) == "abc");
}

BOOST_AUTO_TEST_SUITE_END()
