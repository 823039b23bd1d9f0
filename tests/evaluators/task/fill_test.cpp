// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/fill.hpp"

#include <tbb/global_control.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>
#include <vector>

using namespace cultivar;

namespace {

std::vector<double> filled(const Fill& fill, std::uint64_t seed, std::vector<std::int64_t> shape,
                           Dtype type = Dtype::f32) {
  std::size_t count = 1;
  for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
  std::vector<std::byte> bytes(count * size_of(type));
  fill_tensor(fill, seed, shape, type, bytes);
  std::vector<double> values(count);
  decode(type, bytes, values);
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fill)

BOOST_AUTO_TEST_CASE(a_normal_fill_has_the_moments_and_tails_of_a_normal) {
  const std::vector<double> x = filled({Fill::Kind::normal, 0, 1, -1}, 7, {1000, 1000});
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, neighbour = 0;
  std::size_t beyond1 = 0, beyond2 = 0, beyond3 = 0, beyond4 = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    m1 += x[i], m2 += x[i] * x[i], m3 += x[i] * x[i] * x[i], m4 += x[i] * x[i] * x[i] * x[i];
    if (i > 0) neighbour += x[i] * x[i - 1];
    beyond1 += std::abs(x[i]) > 1, beyond2 += std::abs(x[i]) > 2, beyond3 += std::abs(x[i]) > 3;
    beyond4 += std::abs(x[i]) > 4;
  }
  const auto n = static_cast<double>(x.size());
  BOOST_TEST(std::abs(m1 / n) < 0.005);
  BOOST_TEST(std::abs(m2 / n - 1) < 0.007);
  BOOST_TEST(std::abs(m3 / n) < 0.015);
  BOOST_TEST(std::abs(m4 / n - 3) < 0.05);
  BOOST_TEST(std::abs(neighbour / n) < 0.005);
  BOOST_TEST(std::abs(static_cast<double>(beyond1) / n - 0.317311) < 0.0025);
  BOOST_TEST(std::abs(static_cast<double>(beyond2) / n - 0.045500) < 0.001);
  BOOST_TEST(std::abs(static_cast<double>(beyond3) / n - 0.0027) < 0.0003);
  BOOST_TEST(beyond4 > 30u);  // expected 63
  BOOST_TEST(beyond4 < 110u);
}

BOOST_AUTO_TEST_CASE(mean_and_deviation_are_applied) {
  const std::vector<double> x = filled({Fill::Kind::normal, 5, 0.5, -1}, 3, {100000});
  double sum = 0, squares = 0;
  for (const double v : x) sum += v, squares += (v - 5) * (v - 5);
  BOOST_TEST(std::abs(sum / 1e5 - 5) < 0.01);
  BOOST_TEST(std::abs(std::sqrt(squares / 1e5) - 0.5) < 0.01);
}

BOOST_AUTO_TEST_CASE(a_uniform_fill_covers_its_range) {
  const std::vector<double> x = filled({Fill::Kind::uniform, -2, 3, -1}, 3, {100000});
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  BOOST_TEST(*low >= -2);
  BOOST_TEST(*low < -1.99);
  BOOST_TEST(*high < 3);
  BOOST_TEST(*high > 2.99);
  double sum = 0;
  for (const double v : x) sum += v;
  BOOST_TEST(std::abs(sum / 1e5 - 0.5) < 0.03);
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_bits_for_any_number_of_threads) {
  for (const auto kind :
       {Fill::Kind::normal, Fill::Kind::spread, Fill::Kind::one_hot, Fill::Kind::same_rows}) {
    const Fill f{kind, 0.5, 1, 0};
    const std::vector<std::int64_t> shape{700, 1001};
    std::vector<double> one, many;
    {
      tbb::global_control control(tbb::global_control::max_allowed_parallelism, 1);
      one = filled(f, 11, shape, Dtype::bf16);
    }
    many = filled(f, 11, shape, Dtype::bf16);
    BOOST_TEST((one == many));
    BOOST_TEST((filled(f, 12, shape, Dtype::bf16) != many));
  }
}

BOOST_AUTO_TEST_CASE(a_prefix_does_not_depend_on_the_length) {
  const std::vector<double> longer = filled({}, 5, {300001});
  const std::vector<double> shorter = filled({}, 5, {1001});
  BOOST_TEST(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

BOOST_AUTO_TEST_CASE(low_precision_fills_are_the_float_fill_rounded_to_nearest_even) {
  for (const auto kind : {Fill::Kind::normal, Fill::Kind::uniform, Fill::Kind::spread}) {
    const Fill f{kind, 0.25, 2, -1};
    const std::vector<double> exact = filled(f, 5, {5000});
    for (const Dtype type : {Dtype::bf16, Dtype::f16}) {
      const std::vector<double> rounded = filled(f, 5, {5000}, type);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < exact.size(); ++i) wrong += rounded[i] != round_to(type, exact[i]);
      BOOST_TEST(wrong == 0u);
    }
  }
}

BOOST_AUTO_TEST_CASE(one_hot_has_one_needle_along_its_axis_for_every_other_index) {
  const std::vector<double> x = filled({Fill::Kind::one_hot, 0, 9, 1}, 5, {3, 40, 8});
  std::set<std::size_t> places;
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t c = 0; c < 8; ++c) {
      std::size_t hot = 0;
      for (std::size_t b = 0; b < 40; ++b) {
        const double v = x[(a * 40 + b) * 8 + c];
        BOOST_TEST((v == 0 || v == 9));
        if (v == 9) ++hot, places.insert(b);
      }
      BOOST_TEST(hot == 1u);
    }
  BOOST_TEST(places.size() > 5u);
}

BOOST_AUTO_TEST_CASE(outliers_are_whole_lines_one_in_a_hundred) {
  const std::vector<double> x = filled({Fill::Kind::outliers, 1, 1000, 1}, 5, {1000, 64});
  int large = 0;
  for (std::size_t line = 0; line < 1000; ++line) {
    double sum = 0.0;
    for (std::size_t i = 0; i < 64; ++i) sum += x[line * 64 + i] * x[line * 64 + i];
    const double deviation = std::sqrt(sum / 64);
    BOOST_TEST((deviation < 3.0 || deviation > 300.0));
    large += deviation > 300.0;
  }
  BOOST_TEST(large == 10);
}

BOOST_AUTO_TEST_CASE(hot_is_one_index_along_its_axis) {
  const std::vector<double> x = filled({Fill::Kind::hot, 1, 1000, 1}, 5, {400, 64});
  std::set<std::size_t> places;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::abs(x[i]) > 10.0) places.insert(i % 64);
  BOOST_TEST(places.size() == 1U);
}

BOOST_AUTO_TEST_CASE(same_rows_repeats_along_its_axis_only) {
  const std::vector<double> x = filled({Fill::Kind::same_rows, 0, 1, 1}, 5, {2, 10, 4});
  for (std::size_t a = 0; a < 2; ++a)
    for (std::size_t b = 0; b < 10; ++b)
      for (std::size_t c = 0; c < 4; ++c) BOOST_TEST(x[(a * 10 + b) * 4 + c] == x[a * 40 + c]);
  BOOST_TEST(x[0] != x[1]);
  BOOST_TEST(x[0] != x[40]);
}

BOOST_AUTO_TEST_CASE(rising_rises_along_its_axis) {
  const std::vector<double> x = filled({Fill::Kind::rising, 100, 0, 0}, 5, {50, 2});
  for (std::size_t i = 0; i < 50; ++i) BOOST_TEST(x[2 * i] == 2.0 * static_cast<double>(i));
}

BOOST_AUTO_TEST_CASE(spread_covers_its_range_of_magnitudes_with_both_signs) {
  const std::vector<double> x = filled({Fill::Kind::spread, 1, 8, -1}, 5, {10000});
  double least = 1e9, most = 0;
  std::size_t negative = 0;
  for (const double v : x)
    least = std::min(least, std::abs(v)), most = std::max(most, std::abs(v)), negative += v < 0;
  BOOST_TEST(most < std::exp(8.01));
  BOOST_TEST(most > std::exp(7.9));
  BOOST_TEST(least > std::exp(-8.01));
  BOOST_TEST(least < std::exp(-7.9));
  BOOST_TEST(std::abs(static_cast<double>(negative) - 5000) < 300);
}

BOOST_AUTO_TEST_CASE(constant_is_constant) {
  for (const double v : filled({Fill::Kind::constant, 3, 0, -1}, 5, {100}, Dtype::i8)) BOOST_TEST(v == 3);
}

BOOST_AUTO_TEST_CASE(integers_cover_their_range_with_a_share_of_another_value) {
  Fill f{Fill::Kind::integers, 3, 13, -1};
  f.instead = -100, f.share = 0.25;
  const std::vector<double> x = filled(f, 5, {40000}, Dtype::i64);
  const std::set<double> values(x.begin(), x.end());
  BOOST_TEST(values.size() == 11u);
  BOOST_TEST(*values.begin() == -100);
  BOOST_TEST(*std::next(values.begin()) == 3);
  BOOST_TEST(*values.rbegin() == 12);
  BOOST_TEST(std::abs(static_cast<double>(std::count(x.begin(), x.end(), -100)) - 10000) < 400);
  BOOST_TEST((x == filled(f, 5, {40000}, Dtype::i64)));
  BOOST_TEST((x != filled(f, 6, {40000}, Dtype::i64)));
}

// A kernel that is wrong at the last valid index only must meet it.
BOOST_AUTO_TEST_CASE(integers_always_reach_the_end_of_their_range) {
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{8}, std::vector<std::int64_t>{64, 1},
          std::vector<std::int64_t>{5, 300}}) {
      const std::vector<double> x = filled({Fill::Kind::integers, 0, 100000, -1}, seed, shape, Dtype::i64);
      const auto last = std::count(x.begin(), x.end(), 99999.0);
      BOOST_TEST(last >= 1);
      BOOST_TEST(last <= 1 + static_cast<std::int64_t>(x.size()) / 8 + 4);
      BOOST_TEST(*std::max_element(x.begin(), x.end()) == 99999.0);
    }
}

BOOST_AUTO_TEST_CASE(a_permutation_has_each_index_of_its_axis_once) {
  const std::vector<double> x = filled({Fill::Kind::permutation, 10, 0, 0}, 5, {50, 3}, Dtype::i32);
  std::set<std::vector<double>> lines;
  for (std::size_t column = 0; column < 3; ++column) {
    std::vector<double> line;
    for (std::size_t i = 0; i < 50; ++i) line.push_back(x[i * 3 + column]);
    lines.insert(line);
    std::sort(line.begin(), line.end());
    for (std::size_t i = 0; i < 50; ++i) BOOST_TEST(line[i] == 10.0 + static_cast<double>(i));
  }
  BOOST_TEST(lines.size() == 3u);
  std::vector<double> all = filled({Fill::Kind::permutation, 7, 0, kAllAxes}, 5, {50, 3}, Dtype::i32);
  BOOST_TEST(!std::is_sorted(all.begin(), all.end()));
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) BOOST_TEST(all[i] == 7.0 + static_cast<double>(i));
}

BOOST_AUTO_TEST_CASE(lengths_have_their_sum_and_offsets_are_running_sums) {
  const std::vector<double> lengths = filled({Fill::Kind::lengths, 2, 1000, -1}, 5, {4, 30}, Dtype::i32);
  for (std::size_t line = 0; line < 4; ++line) {
    double sum = 0;
    for (std::size_t i = 0; i < 30; ++i) {
      sum += lengths[line * 30 + i];
      BOOST_TEST(lengths[line * 30 + i] >= 2);
    }
    BOOST_TEST(sum == 1000);
  }
  const std::vector<double> offsets = filled({Fill::Kind::offsets, 1, 1000, -1}, 5, {31}, Dtype::i32);
  BOOST_TEST(offsets.front() == 0);
  BOOST_TEST(offsets.back() == 1000);
  for (std::size_t i = 1; i < offsets.size(); ++i) BOOST_TEST(offsets[i] >= offsets[i - 1] + 1);
  BOOST_TEST((offsets != filled({Fill::Kind::offsets, 1, 1000, -1}, 6, {31}, Dtype::i32)));
}

// A distribution that promises outliers has at least one, however few lines there are, and not only outliers.
BOOST_AUTO_TEST_CASE(few_lines_have_outliers_too) {
  for (const std::int64_t lines : {1, 2, 3, 7, 8, 19, 64, 100, 130, 256}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const std::vector<double> x = filled({Fill::Kind::outliers, 1, 1000, 1}, seed, {lines, 64});
      std::int64_t large = 0;
      for (std::int64_t line = 0; line < lines; ++line) {
        double squares = 0.0;
        for (std::size_t c = 0; c < 64; ++c)
          squares += std::pow(x[static_cast<std::size_t>(line) * 64 + c], 2);
        large += squares > 64.0 * 1e4 ? 1 : 0;
      }
      BOOST_TEST_REQUIRE(large >= 1, lines << " lines");
      BOOST_TEST_REQUIRE(large <= std::max<std::int64_t>(1, (lines + 1) / 2), lines << " lines: " << large);
      if (lines >= 64) BOOST_TEST_REQUIRE(large >= 8, lines << " lines: " << large);
    }
  }
}

BOOST_AUTO_TEST_CASE(hot_tensors_may_share_their_index) {
  const Fill hot{Fill::Kind::hot, 1, 1000, 1};
  const auto index_of = [&](std::uint64_t seed, std::int64_t rows, std::optional<std::uint64_t> place) {
    const std::vector<std::int64_t> shape{rows, 128};
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * 128 * 4);
    fill_tensor(hot, seed, shape, Dtype::f32, bytes, place);
    std::vector<double> values(bytes.size() / 4);
    decode(Dtype::f32, bytes, values);
    std::vector<double> sums(128);
    for (std::size_t i = 0; i < values.size(); ++i) sums[i % 128] += std::abs(values[i]);
    return std::ranges::max_element(sums) - sums.begin();
  };
  std::size_t apart = 0;
  for (std::uint64_t place = 1; place <= 20; ++place) {
    BOOST_TEST(index_of(100 + place, 9, place) == index_of(200 + place, 30, place));
    apart += index_of(100 + place, 9, {}) != index_of(200 + place, 30, {});
  }
  BOOST_TEST(apart >= 15u);
}

BOOST_AUTO_TEST_SUITE_END()
