// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/drawn_shapes.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "evaluators/judge/check_shapes.hpp"

using namespace cultivar;

namespace {

const std::string kTasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/";

// A seed of the task with this claim instead of its own.
Variant claiming(const Task& task, const std::string& claim) {
  Variant variant = load_variant(kTasks + task.name + "/seeds/vectorised.cpp", task);
  variant.manifest.requires_ = Expression::parse(claim).value();
  return variant;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(drawn_shapes)

BOOST_AUTO_TEST_CASE(drawn_shapes_are_new_legal_claimed_and_within_the_limits) {
  for (const char* name : {"softmax", "attention_forward"}) {
    const Task task = load_task(kTasks + name);
    const Variant variant = load_variant(kTasks + name + "/seeds/vectorised.cpp", task);
    const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
    const ShapeLimits limits = limits_of(task, around, 1.0);
    std::set<std::string> listed, all;
    for (const Workload& w : listed_shapes(task, variant.manifest.target)) listed.insert(w.name);
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const auto drawn =
          draw_shapes(task, variant, around, limits, 4, seed, [](const Workload&) { return true; });
      BOOST_TEST(drawn.size() == 4U);
      for (const Workload& w : drawn) {
        BOOST_TEST(!listed.contains(w.name), w.name);
        BOOST_TEST(claims(variant, task, w), w.name);
        BOOST_TEST(task.flops(w) <= limits.flops, w.name);
        all.insert(w.name);
      }
    }
    BOOST_TEST(all.size() > 180U);  // of 200
  }
}

BOOST_AUTO_TEST_CASE(parameters_that_no_file_gives_are_drawn_too) {
  const Task task = load_task(kTasks + "attention_forward");
  const Variant variant = load_variant(kTasks + "attention_forward/seeds/vectorised.cpp", task);
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  int other_scales = 0, masked = 0, negative = 0;
  for (const Workload& w : draw_shapes(task, variant, around, limits_of(task, around, 1.0), 100, 3,
                                       [](const Workload&) { return true; })) {
    const double scale = w.values.at("scale"), usual = 1 / std::sqrt(w.values.at("D"));
    const bool other = std::abs(scale - usual) > 0.01 * usual;
    other_scales += other;
    masked += w.values.at("causal") != 0;
    negative += scale < 0;
    // The task gives the range.
    if (other)
      BOOST_TEST((std::abs(scale) <= 4 && scale == static_cast<double>(static_cast<float>(scale))), w.name);
  }
  BOOST_TEST(negative > 10, negative);
  BOOST_TEST((other_scales > 25 && other_scales < 75), other_scales);
  BOOST_TEST((masked > 25 && masked < 75), masked);
}

BOOST_AUTO_TEST_CASE(optional_parameters_are_drawn_where_a_variant_claims_them) {
  const Task task = load_task(kTasks + "attention_forward");
  const auto drawn = [&](const std::string& seed) {
    const Variant variant = load_variant(kTasks + "attention_forward/seeds/" + seed, task);
    const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
    int windows = 0, caps = 0;
    for (const Workload& w : draw_shapes(task, variant, around, limits_of(task, around, 1.0), 100, 3,
                                         [](const Workload&) { return true; })) {
      windows += w.values.at("window") != 0;
      caps += w.values.at("softcap") != 0;
    }
    return std::pair{windows, caps};
  };
  const auto [windows, caps] = drawn("naive.cpp");
  BOOST_TEST((windows > 20 && windows < 80), windows);
  BOOST_TEST((caps > 20 && caps < 80), caps);
  BOOST_TEST((drawn("vectorised.cpp") == std::pair{0, 0}));
}

BOOST_AUTO_TEST_CASE(amounts_are_drawn_between_the_listed_ones) {
  const Task task = load_task(kTasks + "attention_forward");
  std::map<std::string, std::set<double>> listed, drawn;
  for (const auto* shapes : {&task.sweep, &task.edge, &task.smoke})
    for (const Workload& w : *shapes)
      for (const Parameter& p : task.parameters) listed[p.name].insert(w.values.at(p.name));
  for (const WorkloadSet& set : task.workload_sets)
    for (const Workload& w : set.workloads)
      for (const Parameter& p : task.parameters) listed[p.name].insert(w.values.at(p.name));
  const Variant variant = load_variant(kTasks + "attention_forward/seeds/naive.cpp", task);
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  constexpr double kMost = std::numeric_limits<std::int32_t>::max();  // a window that excludes nothing
  int most = 0;
  for (const Workload& w : draw_shapes(task, variant, around, limits_of(task, around, 1.0), 200, 5,
                                       [](const Workload&) { return true; }))
    for (const char* name : {"window", "softcap"}) {
      const double value = w.values.at(name), greatest = *listed[name].rbegin();
      if (value >= kMost - 1 && std::string_view(name) == "window") {
        ++most;
        continue;
      }
      BOOST_TEST((value == 0 || (value >= 1 && value <= greatest)), w.name);
      BOOST_TEST((value == std::floor(value) || std::string_view(name) == "softcap"), w.name);
      if (!listed[name].contains(value)) drawn[name].insert(value);
    }
  BOOST_TEST((most > 2 && most < 40), most);
  BOOST_TEST(drawn["window"].size() > 20U);
  BOOST_TEST(drawn["softcap"].size() > 20U);
}

BOOST_AUTO_TEST_CASE(an_amount_is_an_optional_number_or_an_integer_that_is_no_choice) {
  const Task task = load_task(kTasks + "attention_forward");
  const auto amounts = [](const Task& of, const std::string& name) {
    return amounts_of(of, *std::ranges::find(of.parameters, name, &Parameter::name));
  };
  BOOST_TEST((amounts(task, "window") == std::pair{1.0, 4096.0}));
  BOOST_TEST((amounts(task, "softcap") == std::pair{1.0, 50.0}));
  BOOST_TEST(!amounts(task, "causal"));
  BOOST_TEST(!amounts(task, "scale"));
  BOOST_TEST((amounts(load_task(kTasks + "cross_entropy"), "ignore_index") == std::pair{3.0, 10.0}));
  Task choice = task;  // a window of 0 and 1 looks like a choice of two
  choice.smoke = choice.sweep = choice.stress_shapes = {};
  choice.workload_sets = {};
  std::erase_if(choice.edge, [](const Workload& w) { return w.values.at("window") > 1; });
  BOOST_TEST(!amounts(choice, "window"));
}

BOOST_AUTO_TEST_CASE(claims_of_multiples_of_tiles_are_met) {
  const Task task = load_task(kTasks + "attention_forward");
  const Variant variant =
      claiming(task, "D == 64 && dtype == f32 && !causal && H == H_kv && S_q % 64 == 0 && S_kv % 64 == 0");
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  BOOST_REQUIRE(!around.empty());
  const auto drawn = draw_shapes(task, variant, around, limits_of(task, around, 1.0), 16, 7,
                                 [](const Workload&) { return true; });
  BOOST_TEST(drawn.size() == 16U);
}

BOOST_AUTO_TEST_CASE(foci_are_the_numbers_of_the_source_and_what_surrounds_them) {
  const Task task = load_task(kTasks + "softmax");
  Variant variant = claiming(task, "dtype == f32");
  variant.source += "\nenum { kWide = 5120 };\nbool wide(int C) { return C == kWide; }\n";
  const std::vector<Focus> foci = foci_of(task, variant, 1);
  const auto has = [&](const std::string& name, double value, bool compared) {
    return std::ranges::any_of(foci, [&](const Focus& f) {
      return f.name == name && f.value == value && f.relation == Focus::Relation::none &&
             f.compared == compared;
    });
  };
  for (const char* name : {"R", "C"})
    BOOST_TEST((has(name, 5120, true) && has(name, 5119, false) && has(name, 5121, false)), name);
  BOOST_TEST((has("R", 65537, false) && has("R", 1048577, false) && !has("C", 1048577, false)));
  BOOST_TEST((has("C", 127, false) && has("C", 129, false)));
}

// "C > 3000 && C % 40 == 39", "R > 300 && C > 3000".
BOOST_AUTO_TEST_CASE(two_numbers_of_the_source_are_met_together) {
  const Task task = load_task(kTasks + "softmax");
  Variant variant = claiming(task, "dtype == f32");
  variant.source += "\nbool tail(int R, int C) { return (C > 3000 && C % 40 == 39) || R > 300; }\n";
  bool tail = false, both = false;
  for (const Focus& f : foci_of(task, variant, 1)) {
    tail = tail || (f.compared && f.name == "C" && f.value > 3000 && std::fmod(f.value, 40) == 39);
    both = both || (f.compared && f.name == "R" && f.also == "C" && f.value >= 300 && f.also_value >= 3000);
  }
  BOOST_TEST(tail);
  BOOST_TEST(both);
}

// "N == 4 * K && K > 100".
BOOST_AUTO_TEST_CASE(a_multiple_that_the_source_compares_is_met_beyond_its_other_numbers) {
  const Task task = load_task(kTasks + "matmul");
  Variant variant = load_variant(kTasks + "matmul/seeds/naive.cpp", task);
  variant.source += "\nbool wide(int N, int K) { return N == 4 * K && K > 100; }\n";
  bool met = false;
  for (const Focus& f : foci_of(task, variant, 1))
    met = met || (f.compared && f.name == "N" && f.relation == Focus::Relation::times && f.value == 4 &&
                  f.of == "K" && f.also == "K" && f.also_value == 101);
  BOOST_TEST(met);
}

BOOST_AUTO_TEST_CASE(shapes_at_a_focus_have_its_value_and_small_others) {
  const Task task = load_task(kTasks + "attention_forward");
  const Variant variant = load_variant(kTasks + "attention_forward/seeds/naive.cpp", task);
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  const ShapeLimits limits{3e7, 0x1p22};
  const auto drawn = [&](const Focus& focus) {
    const auto shapes = draw_focused_shapes(task, variant, around, limits, std::span(&focus, 1), 1, 7,
                                            [](const Workload&) { return true; });
    BOOST_REQUIRE(shapes.size() == 1U);
    BOOST_TEST((task.flops(shapes[0]) <= limits.flops && claims(variant, task, shapes[0])));
    return shapes[0].values;
  };
  BOOST_TEST(drawn({"S_kv", 4097}).at("S_kv") == 4097);
  const Bindings alone = drawn({"D", 77, Focus::Relation::none, {}, true, Focus::Others::least});
  for (const char* name : {"B", "H", "S_q", "S_kv"}) BOOST_TEST(alone.at(name) == 1, name);
  BOOST_TEST(alone.at("D") == 77);
  const Bindings two = drawn({"S_q", 9, Focus::Relation::none, {}, true, Focus::Others::small, "S_kv", 2501});
  BOOST_TEST((two.at("S_q") == 9 && two.at("S_kv") == 2501));
  const Bindings shifted = drawn({"S_kv", 63, Focus::Relation::plus, "S_q"});
  BOOST_TEST(shifted.at("S_kv") == shifted.at("S_q") + 63);
  const Bindings groups = drawn({"H", 3, Focus::Relation::times, "H_kv"});
  BOOST_TEST(groups.at("H") == 3 * groups.at("H_kv"));
  const Bindings many =
      drawn({"H", 3, Focus::Relation::times, "H_kv", true, Focus::Others::small, "H_kv", 11});
  BOOST_TEST((many.at("H") == 33 && many.at("H_kv") == 11));
}

BOOST_AUTO_TEST_CASE(shapes_alike_have_the_macros_and_are_small) {
  const Task task = load_task(kTasks + "attention_forward");
  const Variant variant = load_variant(kTasks + "attention_forward/seeds/tiled.cpp", task);  // D, causal
  const std::vector<Workload> around = claimed_shapes(task, Stage::stress, variant);
  Workload like = task.workloads("cpu_wide")->workloads.back();  // D 128, causal
  const ShapeLimits limits = limits_of(task, around, 8.0);
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    for (const Workload& w : draw_shapes_like(task, variant, around, limits, like, 2, seed)) {
      BOOST_TEST((macros(variant, task, w) == macros(variant, task, like)), w.name);
      BOOST_TEST(task.flops(w) <= limits.flops, w.name);
    }
}

BOOST_AUTO_TEST_CASE(what_is_not_usable_is_not_drawn) {
  const Task task = load_task(kTasks + "softmax");
  const Variant variant = claiming(task, "dtype == f32");
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  const auto drawn = draw_shapes(task, variant, around, limits_of(task, around, 1.0), 4, 1,
                                 [](const Workload&) { return false; });
  BOOST_TEST(drawn.empty());
}

BOOST_AUTO_TEST_CASE(some_shapes_have_more_rows_than_any_that_is_listed) {
  const Task task = load_task(kTasks + "softmax");
  for (const char* claim : {"dtype == f32", "dtype == f32 && C % 64 == 0 && R % 8 == 0"}) {
    const Variant variant = claiming(task, claim);
    const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
    const ShapeLimits limits = limits_of(task, task.workloads("cpu_quick")->workloads, 1.0);
    double greatest = 0.0, least_drawn = INFINITY, most_drawn = 0.0;
    for (const WorkloadSet& set : task.workload_sets)
      for (const Workload& w : set.workloads) greatest = std::max(greatest, w.values.at("R"));
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const auto drawn =
          draw_far_shapes(task, variant, around, limits, 2, seed, [](const Workload&) { return true; });
      BOOST_TEST(drawn.size() == 2U);
      for (const Workload& w : drawn) {
        BOOST_TEST(w.values.at("R") > greatest, w.name);
        BOOST_TEST(claims(variant, task, w), w.name);
        BOOST_TEST(task.flops(w) <= limits.flops, w.name);
        least_drawn = std::min(least_drawn, w.values.at("R"));
        most_drawn = std::max(most_drawn, w.values.at("R"));
      }
    }
    BOOST_TEST(least_drawn < 1.3 * greatest, claim);
    BOOST_TEST((far_dimensions(task) == std::vector<std::pair<std::string, double>>{{"R", greatest}}));
    BOOST_TEST(most_drawn <= kFarFactor * greatest + 255.0, claim);  // a multiple of up to 256
    // Rows of 64 columns have no room for 16 times as many.
    if (std::string_view(claim) == "dtype == f32")
      BOOST_TEST(most_drawn > 0.75 * kFarFactor * greatest, claim);
  }
}

BOOST_AUTO_TEST_CASE(a_dimension_over_which_an_output_sums_does_not_grow) {
  const Task task = load_task(kTasks + "rmsnorm_backward");
  const Variant variant = load_variant(kTasks + "rmsnorm_backward/seeds/naive.cpp", task);
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  BOOST_TEST(draw_far_shapes(task, variant, around, limits_of(task, around, 1.0), 2, 1, [](const Workload&) {
               return true;
             }).empty());
  BOOST_TEST(far_dimensions(task).empty());
}

BOOST_AUTO_TEST_CASE(sums_that_only_some_outputs_form_do_not_grow_without_end) {
  // dk and dv are sums over the query heads of a group.
  const Task task = load_task(kTasks + "attention_backward");
  double most = 0.0, drawn = 0.0;
  for (const WorkloadSet& set : task.workload_sets)
    for (const Workload& w : set.workloads) most = std::max(most, w.values.at("H"));
  for (const Focus& f : foci_of(task, claiming(task, "dtype == f32"), 1))
    if (f.name == "H" && f.relation == Focus::Relation::none) drawn = std::max(drawn, f.value);
  BOOST_TEST(drawn > most);
  BOOST_TEST(drawn <= 16.0 * most);
}

// n / d as (n * inverse) >> 32, with the inverse of d rounded up, is wrong at n = d - 1 + a multiple of d
// from where n * (inverse * d - 2^32) reaches 2^32 on: both must be large, and d no power of two.
BOOST_AUTO_TEST_CASE(two_dimensions_are_large_together_as_no_division_by_a_reciprocal_bears) {
  const Task task = load_task(kTasks + "transpose");
  const Variant variant = load_variant(kTasks + "transpose/seeds/naive.cpp", task);
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  int shown = 0;
  constexpr std::uint64_t kSeeds = 10;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    bool wrong = false;
    for (const std::vector<Focus>& filled : filled_foci(task, seed))
      for (const Workload& w : draw_focused_shapes(task, variant, around, {2e8, 0x1p27}, filled, 1, seed,
                                                   [](const Workload&) { return true; })) {
        const auto strips = (static_cast<std::uint64_t>(w.values.at("C")) + 15) / 16,
                   count = static_cast<std::uint64_t>(w.values.at("B")) * strips - 1,
                   inverse = ((std::uint64_t{1} << 32) + strips - 1) / strips;
        // With one row a matrix after another is copied wherever a strip is said to lie.
        wrong = wrong || (w.values.at("R") > 1 && (count * inverse) >> 32 != count / strips);
      }
    shown += wrong;
  }
  BOOST_TEST(shown >= 9);
}

// n * (1 / d) in f32 is below n / d for some d only, and only for n = d, 2 d and so on: one batch shows none.
BOOST_AUTO_TEST_CASE(divisors_are_many_beside_more_than_one_of_all_others) {
  const Task task = load_task(kTasks + "transpose");
  const Variant variant = load_variant(kTasks + "transpose/seeds/naive.cpp", task);
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  int shown = 0;
  constexpr std::uint64_t kSeeds = 20;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    bool wrong = false;
    for (const Workload& w :
         draw_focused_shapes(task, variant, around, {2e7, 0x1p23}, divisor_foci(task, seed), 96, seed,
                             [](const Workload&) { return true; })) {
      const auto strips = std::floor((w.values.at("C") + 63.0) / 64.0);
      const float inverse = 1.0f / static_cast<float>(strips);
      for (int b = 1; b < w.values.at("B"); ++b)
        wrong = wrong || static_cast<int>(static_cast<float>(b * strips) * inverse) != b;
    }
    shown += wrong;
  }
  BOOST_TEST(shown >= 19);
}

BOOST_AUTO_TEST_CASE(a_table_is_longer_than_16_bits_tell_beside_a_number_of_the_source) {
  const Task task = load_task(kTasks + "rope");
  Variant variant = load_variant(kTasks + "rope/seeds/naive.cpp", task);
  variant.source += "\nint wide(int D) { return D % 128 != 0; }\n";
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    bool met = false;
    for (const Workload& w : draw_focused_shapes(task, variant, around, {2e8, 0x1p26 * 1.25},
                                                 table_length_foci(task, variant, seed), 8, seed,
                                                 [](const Workload&) { return true; }))
      met = met || (w.values.at("P") > 0x1p16 && std::fmod(w.values.at("D"), 128.0) == 0.0);
    BOOST_TEST(met, seed);
  }
}

BOOST_AUTO_TEST_CASE(wide_rows_are_long_in_one_dimension_that_counts_no_rows) {
  const Task task = load_task(kTasks + "softmax");
  const auto wide = wide_foci(task, 1);
  BOOST_REQUIRE(wide.size() == 2U);
  for (const std::vector<Focus>& alternatives : wide) {
    BOOST_TEST(alternatives.front().name == "C");
    BOOST_TEST((alternatives.front().value >= 0x1p16 && alternatives.front().value <= 0x1p19 + 1));
    BOOST_TEST(std::fmod(alternatives.front().value, 2.0) == 1.0);
  }
}

// A count of elements says nothing of the work: with timed lengths such shapes took 6e11 operations and more.
BOOST_AUTO_TEST_CASE(large_counts_are_met_by_shapes_of_limited_work) {
  for (const char* name : {"attention_forward", "matmul", "softmax"}) {
    const Task task = load_task(kTasks + name);
    Variant variant = load_variant(kTasks + name + "/seeds/naive.cpp", task);
    constexpr double kCount = 0x1p27;
    variant.source += "\nstatic bool many(long long count) { return count > 134217728; }\n";
    const std::vector<Workload> timed = task.workloads("cpu_quick")->workloads;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto drawn = draw_large_counts(task, variant, timed, seed, [](const Workload&) { return true; });
      BOOST_REQUIRE_MESSAGE(drawn.size() == 1U, name << ", seed " << seed);
      const Workload& w = drawn.front();
      BOOST_TEST(task.flops(w) <= kLargestShapes.flops, w.name);
      double most = 0.0;
      for (const TensorSpec& tensor : task.tensors) {
        double own = 1.0;
        for (const std::int64_t extent : task.shape(tensor, w)) own *= static_cast<double>(extent);
        if (tensor.shape.size() > 1 && own > kCount) most = most == 0.0 ? own : std::min(most, own);
      }
      BOOST_TEST((most > kCount && most < 1.1 * kCount), w.name);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
