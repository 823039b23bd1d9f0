// SPDX-License-Identifier: Apache-2.0
// Shapes drawn in a domain: inside it, legal, over all orders of magnitude, at the kernels' numbers, and the
// same ones for the same seed.
#include "engine/export/domain.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>

#include "evaluators/task/task.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kTasks = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks";

struct Attention {
  Task task = load_task(kTasks / "attention_forward");

  std::vector<Workload> drawn(
      const std::string& domain, std::size_t count, std::uint64_t seed, std::vector<double> thresholds = {},
      const std::function<bool(const Workload&)>& usable = [](const Workload&) { return true; }) const {
    const auto ranges = parse_ranges("--over", domain, task);
    BOOST_REQUIRE_MESSAGE(ranges, (ranges ? "" : ranges.error().message));
    DomainDraw draw(task, *ranges, task.workloads("cpu_quick")->workloads.front(), std::move(thresholds),
                    usable, seed);
    std::vector<Workload> all;
    while (all.size() < count) {
      auto shape = draw.next();
      if (!shape) break;
      all.push_back(std::move(*shape));
    }
    return all;
  }
};

const char* const kDomain =
    "B: 1-256, H: 8-64 step x2, H_kv: 1-64 step x2, S_q: 1-32768, S_kv: 1-131072, "
    "D: 64-256 step x2, causal: 0-1";

}  // namespace

BOOST_FIXTURE_TEST_SUITE(domain, Attention)

BOOST_AUTO_TEST_CASE(every_shape_is_in_the_domain_legal_and_new) {
  const auto ranges = *parse_ranges("--over", kDomain, task);
  const auto shapes = drawn(kDomain, 300, 7);
  BOOST_TEST_REQUIRE(shapes.size() == 300U);
  std::set<std::string> names;
  for (const Workload& shape : shapes) {
    names.insert(shape.name);
    for (const ValueRange& range : ranges) BOOST_TEST(range.has(shape.values.at(range.name)), shape.name);
    BOOST_TEST(std::fmod(shape.values.at("H"), shape.values.at("H_kv")) == 0.0, shape.name);
    BOOST_TEST(make_workload(task, given_values(task, shape), shape.dtype, true).has_value());
  }
  BOOST_TEST(names.size() == 300U);
}

BOOST_AUTO_TEST_CASE(orders_of_magnitude_flags_and_factors_come_equally_often) {
  const auto shapes = drawn(kDomain, 600, 3);
  const auto share = [&](const auto& what) {
    return static_cast<double>(std::ranges::count_if(shapes, what)) / static_cast<double>(shapes.size());
  };
  // 2^0 to 2^15: a third of it below 2^5, a third above 2^10.
  BOOST_TEST(std::abs(share([](const Workload& w) { return w.values.at("S_q") < 32; }) - 1.0 / 3) < 0.08);
  BOOST_TEST(std::abs(share([](const Workload& w) { return w.values.at("S_q") >= 1024; }) - 1.0 / 3) < 0.08);
  BOOST_TEST(std::abs(share([](const Workload& w) { return w.values.at("causal") == 1; }) - 0.5) < 0.08);
  for (const double D : {64.0, 128.0, 256.0})
    BOOST_TEST(std::abs(share([&](const Workload& w) { return w.values.at("D") == D; }) - 1.0 / 3) < 0.08);
}

BOOST_AUTO_TEST_CASE(a_quarter_lies_at_the_kernels_numbers_or_beside_them) {
  const auto at = [](double value) { return value >= 999 && value <= 1001; };
  const auto of = [&](std::vector<double> thresholds) {
    const auto shapes = drawn("S_q: 1-32768, B: 1-256", 400, 5, std::move(thresholds));
    return std::ranges::count_if(shapes, [&](const Workload& w) { return at(w.values.at("S_q")); });
  };
  BOOST_TEST(of({}) < 10);
  BOOST_TEST(of({1000.0}) > 60);
  BOOST_TEST(of({1000.0}) < 140);
  BOOST_TEST(of({1e6}) < 10);  // outside of the range
}

BOOST_AUTO_TEST_CASE(equal_seeds_give_equal_shapes_and_more_of_them_go_on) {
  const auto few = drawn(kDomain, 20, 11), many = drawn(kDomain, 40, 11), others = drawn(kDomain, 20, 12);
  for (std::size_t i = 0; i < few.size(); ++i) BOOST_TEST(few[i].name == many[i].name);
  BOOST_TEST(few[0].name + few[1].name != others[0].name + others[1].name);
}

BOOST_AUTO_TEST_CASE(a_small_domain_ends_and_what_is_not_usable_is_left_out) {
  BOOST_TEST(drawn("S_q: 1-3, causal: 0-1", 100, 1).size() == 6U);
  const auto odd = drawn("S_q: 1-9", 100, 1, {},
                         [](const Workload& w) { return std::fmod(w.values.at("S_q"), 2.0) == 1.0; });
  BOOST_TEST(odd.size() == 5U);
}

BOOST_AUTO_TEST_CASE(a_range_rounds_to_its_own_values) {
  const ValueRange steps{"C", 256, 1000, 8}, factors{"D", 64, 300, 2, true};
  BOOST_TEST(steps.nearest(263) == 264.0);
  BOOST_TEST(steps.nearest(5000) == 1000.0);
  BOOST_TEST(steps.count() == 94.0);
  BOOST_TEST(factors.count() == 3.0);
  BOOST_TEST(factors.nearest(80) == 64.0);
  BOOST_TEST(factors.nearest(100) == 128.0);
  BOOST_TEST(factors.nearest(300) == 256.0);
}

BOOST_AUTO_TEST_SUITE_END()
