// SPDX-License-Identifier: Apache-2.0
// The dispatch table: what it learns from times, how simple it stays, and what its regret is.
#include "engine/export/dispatch_table.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/export/domain_dispatch.hpp"
#include "engine/export/portfolio.hpp"
#include "evaluators/system/random.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

constexpr double kNo = std::numeric_limits<double>::infinity();
const std::vector<DispatchFeature> kFeatures{{{"R"}}, {{"C"}}, {{"causal"}}, {{"R", "C"}}};

TimedShape shape(double R, double C, std::vector<double> seconds, double causal = 0.0) {
  return {{{"R", R}, {"C", C}, {"causal", causal}}, std::move(seconds)};
}

// Over R and C from 1 to 2^12.
std::vector<TimedShape> grid(const std::function<std::vector<double>(double, double)>& seconds) {
  std::vector<TimedShape> all;
  for (double R = 1; R <= 4096; R *= 2)
    for (double C = 1; C <= 4096; C *= 2) all.push_back(shape(R, C, seconds(R, C)));
  return all;
}

std::size_t chosen(const DispatchTable& table, double R, double C, double causal = 0.0) {
  return table.nodes[table.leaf_of({{"R", R}, {"C", C}, {"causal", causal}})].order.front();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dispatch_table)

BOOST_AUTO_TEST_CASE(a_threshold_of_one_dimension_is_found) {
  const auto shapes = grid([](double, double C) {
    return C <= 512 ? std::vector{1.0, 1.5} : std::vector{1.5, 1.0};
  });
  const DispatchTable table = fit_table(shapes, 2, kFeatures, 0.1);
  BOOST_TEST(table.leaves().size() == 2U);
  BOOST_TEST(table.nodes[0].test.words(true) == "C <= 768");
  BOOST_TEST(table.nodes[0].test.words(false) == "C > 768");
  BOOST_TEST(chosen(table, 7, 512) == 0U);
  BOOST_TEST(chosen(table, 7, 2000) == 1U);
  for (const TimedShape& each : shapes) BOOST_TEST(regret(table, each) == 1.0);
}

BOOST_AUTO_TEST_CASE(a_product_is_tested_where_it_tells_more) {
  const auto shapes = grid([](double R, double C) {
    return R * C <= 8192 ? std::vector{1.0, 2.0} : std::vector{2.0, 1.0};
  });
  const DispatchTable table = fit_table(shapes, 2, kFeatures, 0.1);
  BOOST_TEST(table.leaves().size() == 2U);
  BOOST_TEST(table.nodes[0].test.words(true) == "R * C <= 12288");
}

// Forty times with noise, of which the rules follow less when a forest fills the domain between them.
BOOST_AUTO_TEST_CASE(shapes_without_times_help_where_few_were_measured) {
  const auto seconds = [](double R, double C) {
    return R * C <= 8192 ? std::vector{1.0, 1.3} : std::vector{1.2, 1.0};
  };
  const std::vector<TimedShape> truth = grid(seconds);
  std::vector<Bindings> further;
  for (const TimedShape& each : truth) further.push_back(each.values);
  double without = 0.0, with = 0.0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    RandomStream random = stream_of(seed, "noise", 0);
    std::vector<TimedShape> measured;
    for (int i = 0; i < 40; ++i) {
      const double R = std::exp2(12.0 * uniform(random)), C = std::exp2(12.0 * uniform(random));
      auto times = seconds(R, C);
      for (double& each : times) each *= std::exp(0.8 * (uniform(random) - 0.5));
      measured.push_back(shape(R, C, times));
    }
    const DispatchTable plain = fit_table(measured, 2, kFeatures, 0.005 * 40, 2);
    const DispatchTable filled = fit_table(measured, 2, kFeatures, 0.005 * 209, 2, further);
    std::size_t counted = 0;
    for (const std::size_t leaf : filled.leaves()) {
      counted += filled.nodes[leaf].shapes;
      BOOST_TEST(filled.nodes[leaf].shapes >= 2U);
    }
    BOOST_TEST(counted == measured.size());
    for (const TimedShape& each : truth)
      without += std::log(regret(plain, each)), with += std::log(regret(filled, each));
  }
  BOOST_TEST(with < without);
}

BOOST_AUTO_TEST_CASE(what_two_tests_together_tell_is_found) {
  const auto shapes = grid([](double R, double C) {
    return (R <= 64) == (C <= 64) ? std::vector{1.0, 2.0} : std::vector{2.0, 1.0};
  });
  const DispatchTable table = fit_table(shapes, 2, {{{"R"}}, {{"C"}}}, 0.1);
  for (const TimedShape& each : shapes) BOOST_TEST(regret(table, each) == 1.0);
}

BOOST_AUTO_TEST_CASE(the_simpler_table_wins_where_little_is_gained) {
  // One kernel is better by a thousandth for some shapes: not worth a rule.
  const auto shapes = grid([](double R, double) {
    return R <= 64 ? std::vector{1.001, 1.0} : std::vector{1.0, 1.3};
  });
  const DispatchTable table =
      fit_table(shapes, 2, kFeatures, 0.1 + 0.001 * static_cast<double>(shapes.size()));
  BOOST_TEST(table.leaves().size() == 1U);
  BOOST_TEST(chosen(table, 1, 1) == 0U);
  // Equal times: the first kernel, one rule.
  const auto equal = grid([](double, double) { return std::vector{1.0, 1.0}; });
  BOOST_TEST(fit_table(equal, 2, kFeatures, 0.0).leaves().size() == 1U);
  BOOST_TEST(chosen(fit_table(equal, 2, kFeatures, 0.0), 3, 3) == 0U);
}

BOOST_AUTO_TEST_CASE(noise_alone_makes_no_rules) {
  std::uint64_t state = 1;
  const auto noise = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return 1.0 + 0.02 * static_cast<double>(state >> 40) / 16777216.0;
  };
  const auto shapes = grid([&](double, double) {
    return std::vector{noise(), 1.05 * noise(), 1.04 * noise()};
  });
  const DispatchTable table = fit_table(shapes, 3, kFeatures, 0.001 * static_cast<double>(shapes.size()));
  BOOST_TEST(table.leaves().size() == 1U);
  BOOST_TEST(chosen(table, 5, 5) == 0U);
}

BOOST_AUTO_TEST_CASE(a_quotient_is_tested_where_it_tells_more) {
  const auto shapes = grid([](double R, double C) {
    return R <= 8 * C ? std::vector{1.0, 2.0} : std::vector{2.0, 1.0};
  });
  std::vector<DispatchFeature> features = kFeatures;
  features.push_back({{"R"}, "C"});
  const DispatchTable table = fit_table(shapes, 2, features, 0.1);
  BOOST_TEST(table.leaves().size() == 2U);
  BOOST_TEST(table.nodes[0].test.words(false) == "R > 12 * C");
  for (const TimedShape& each : shapes) BOOST_TEST(regret(table, each) == 1.0);
  const auto read = nlohmann::json::parse(nlohmann::json(table).dump()).get<DispatchTable>();
  BOOST_TEST((read.nodes[0].test.feature == features.back()));
}

BOOST_AUTO_TEST_CASE(a_leaf_has_as_many_shapes_as_are_asked_for) {
  auto shapes = grid([](double, double) { return std::vector{1.0, 2.0}; });
  for (TimedShape& each : shapes)
    if (each.values.at("R") == 1.0 && each.values.at("C") <= 4.0) each.seconds = {9.0, 1.0};  // three of 169
  BOOST_TEST(fit_table(shapes, 2, kFeatures, 0.1).leaves().size() == 3U);
  for (const std::size_t leaf : fit_table(shapes, 2, kFeatures, 0.1, 4).leaves())
    BOOST_TEST(fit_table(shapes, 2, kFeatures, 0.1, 4).nodes[leaf].shapes >= 4U);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_does_not_serve_a_shape_hands_it_on) {
  const std::vector<TimedShape> shapes{shape(1, 100, {1.0, 2.0, 1.5}), shape(1, 200, {1.0, 2.0, 1.5}),
                                       shape(1, 9000, {kNo, 3.0, 2.0})};
  const DispatchTable table = fit_table(shapes, 3, kFeatures, 10.0);
  BOOST_TEST(table.leaves().size() == 1U);
  BOOST_TEST(table.choice(shapes[0].values, shapes[0].serves()) == 0U);
  BOOST_TEST(table.choice(shapes[2].values, shapes[2].serves()) == 2U);
  BOOST_TEST(regret(table, shapes[2]) == 1.0);
  BOOST_TEST(regret(table, shape(1, 9000, {kNo, 2.0, 3.0})) == 1.5);
  BOOST_TEST(regret(table, shape(1, 9000, {kNo, kNo, kNo})) == 1.0);
}

BOOST_AUTO_TEST_CASE(thresholds_are_round_and_near_the_middle) {
  const auto between = [](double low, double high) {
    return fit_table({shape(low, 1, {1.0, 2.0}), shape(high, 1, {2.0, 1.0})}, 2, {{{"R"}}}, 0.0)
        .nodes[0]
        .test.most;
  };
  BOOST_TEST(between(800, 6400) == 2048.0);
  BOOST_TEST(between(1000, 1001) == 1000.0);
  BOOST_TEST(between(0, 1) == 0.0);
  BOOST_TEST(between(1, 2) == 1.0);
  BOOST_TEST(between(4096, 5000) == 4608.0);
}

BOOST_AUTO_TEST_CASE(only_kernels_that_are_worth_it_are_taken) {
  const auto shapes = grid([](double R, double C) {
    return std::vector{1.0, R <= 64 ? 0.5 : 2.0, C <= 64 ? 0.99 : 2.0, R > 1024 ? 0.7 : 3.0};
  });
  BOOST_TEST(useful_kernels(shapes, 4, 4, 0.02 * static_cast<double>(shapes.size())) ==
                 (std::vector<std::size_t>{0, 1, 3}),
             boost::test_tools::per_element());
  BOOST_TEST(useful_kernels(shapes, 4, 2, 0.0) == (std::vector<std::size_t>{0, 1}),
             boost::test_tools::per_element());
  // What only one kernel serves makes it useful.
  const std::vector<TimedShape> served{shape(1, 1, {1.0, 1.2}), shape(2, 1, {kNo, 5.0})};
  BOOST_TEST(useful_kernels(served, 2, 4, 0.1).size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_table_survives_its_json_and_a_damaged_one_is_refused) {
  const auto shapes = grid([](double R, double C) {
    return R <= 64 ? std::vector{1.0, 2.0} : C <= 16 ? std::vector{2.0, 1.0} : std::vector{1.0, 3.0};
  });
  const DispatchTable table = fit_table(shapes, 2, kFeatures, 0.1);
  const nlohmann::json written = table;
  const auto read = nlohmann::json::parse(written.dump()).get<DispatchTable>();
  BOOST_TEST(nlohmann::json(read) == written);
  BOOST_TEST(read.conditions_of(read.leaves().back()) == table.conditions_of(table.leaves().back()),
             boost::test_tools::per_element());
  nlohmann::json circular = written;
  circular[0]["then"] = 0;
  BOOST_CHECK_THROW((void)circular.get<DispatchTable>(), nlohmann::json::exception);
  BOOST_CHECK_THROW((void)nlohmann::json::array().get<DispatchTable>(), nlohmann::json::exception);
}

BOOST_AUTO_TEST_CASE(each_listed_workload_keeps_the_kernel_that_its_duel_gave_it) {
  const Task task = load_task(std::filesystem::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/softmax");
  const auto& workloads = task.workloads("cpu_quick")->workloads;
  KernelPortfolio portfolio;
  portfolio.best = 7;
  for (std::size_t w = 0; w < workloads.size(); ++w)
    portfolio.entries.push_back({workloads[w].name, w == 1 ? 9 : 7, w == 1 ? 0.2 : 0.0, 0.0, 0.0});
  const DispatchTable table = portfolio.table(task, workloads);
  for (std::size_t w = 0; w < workloads.size(); ++w)
    BOOST_TEST(table.choice(workloads[w].values, {true, true}) == (w == 1 ? 1U : 0U), workloads[w].name);
}

BOOST_AUTO_TEST_CASE(figures_say_regret_and_ratio_and_which_goals_are_missed) {
  DomainDispatch dispatch;
  dispatch.kernels = {7, 9};
  dispatch.table = fit_table({shape(1, 1, {1.0, 1.0})}, 2, kFeatures, 0.1);  // always #7
  const Bindings values{{"R", 1.0}, {"C", 1.0}, {"causal", 0.0}};
  dispatch.drawn = {{"a", values, {{7, 1.0}, {9, 2.0}}, {{"torch", 1.5}, {"other", 3.0}}},
                    {"b", values, {{7, 1.21}, {9, 1.0}}, {{"torch", 1.21}}},
                    {"c", values, {{9, 1.0}}, {}},
                    {"d", values, {}, {}, {}, LeftOut::not_computed()}};
  const DispatchFigures figures = figures_of(dispatch, dispatch.drawn);
  BOOST_TEST(figures.shapes == 3U);
  BOOST_TEST(figures.beside == 2U);
  BOOST_TEST(figures.regret == std::cbrt(1.21), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(figures.worst == 1.21, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(figures.worst_on == "b");
  BOOST_TEST(figures.ratio == std::sqrt(1.5), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(figures.least == 1.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(figures.least_on == "b");
  const std::string words = words_of(figures, "drawn shapes");
  BOOST_TEST(contains(words, "On 3 drawn shapes, the kernel that the table chooses takes 1.066 times"),
             words);
  BOOST_TEST(contains(words, "goal 1.02, missed"), words);
  BOOST_TEST(contains(words, "at most 1.210 times (on b; goal 1.10, missed)"), words);
  BOOST_TEST(contains(words, "1.225 times the speed of the fastest contender of each of the 2 shapes"),
             words);
  const nlohmann::json written = dispatch;
  BOOST_TEST(nlohmann::json(nlohmann::json::parse(written.dump()).get<DomainDispatch>()) == written);
}

BOOST_AUTO_TEST_SUITE_END()
