// SPDX-License-Identifier: Apache-2.0
#include "evaluators/dtype/dtype.hpp"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace cultivar;

namespace {

std::vector<double> all_values(Dtype type) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  std::vector<double> values(bits.size());
  decode(type, std::as_bytes(std::span(bits)), values);
  return values;
}
std::uint16_t encoded(Dtype type, double value) {
  std::uint16_t bits = 0;
  encode(type, {&value, 1}, std::as_writable_bytes(std::span(&bits, 1)));
  return bits;
}

// The value of a 16-bit float from the definition of its fields.
double by_definition(std::uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dtype)

BOOST_AUTO_TEST_CASE(names_and_sizes_agree) {
  for (const char* name :
       {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"}) {
    const auto type = dtype_named(name);
    BOOST_REQUIRE(type);
    BOOST_TEST(name_of(*type) == name);
    BOOST_TEST(size_of(*type) * 8 == std::stoul(std::string(name).substr(name[0] == 'b' ? 2 : 1)));
    BOOST_TEST(is_floating(*type) == (name[0] == 'f' || name[0] == 'b'));
  }
  BOOST_TEST(!dtype_named("fp32").has_value());
}

BOOST_AUTO_TEST_CASE(every_f16_and_bf16_decodes_by_definition_and_encodes_back) {
  for (const auto& [type, exponent_bits] : {std::pair{Dtype::f16, 5}, std::pair{Dtype::bf16, 8}}) {
    const std::vector<double> values = all_values(type);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const double expected = by_definition(bits, exponent_bits);
      if (std::isnan(expected)) {
        wrong += !std::isnan(values[i]) || !std::isnan(round_to(type, values[i]));
        continue;
      }
      wrong += values[i] != expected || std::signbit(values[i]) != std::signbit(expected);
      wrong += encoded(type, values[i]) != bits;
      wrong += round_to(type, values[i]) != values[i];
    }
    BOOST_TEST(wrong == 0u);
  }
}

BOOST_AUTO_TEST_CASE(halfway_points_go_to_even_and_neighbours_to_the_nearest) {
  for (const Dtype type : {Dtype::f16, Dtype::bf16}) {
    const std::vector<double> values = all_values(type);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i + 1 < 0x8000; ++i) {
      if (!std::isfinite(values[i + 1])) break;
      const double middle = 0.5 * (values[i] + values[i + 1]);
      const auto even = static_cast<std::uint16_t>(i % 2 == 0 ? i : i + 1);
      wrong += encoded(type, middle) != even;
      wrong += encoded(type, -middle) != (even | 0x8000);
      wrong += encoded(type, std::nextafter(middle, 0.0)) != i;
      wrong += encoded(type, std::nextafter(middle, 1e300)) != i + 1;
    }
    BOOST_TEST(wrong == 0u);
  }
}

BOOST_AUTO_TEST_CASE(overflow_becomes_infinity_at_the_halfway_point) {
  const double inf = std::numeric_limits<double>::infinity();
  BOOST_TEST(round_to(Dtype::f16, 65519.99) == 65504.0);
  BOOST_TEST(round_to(Dtype::f16, 65520.0) == inf);
  BOOST_TEST(encoded(Dtype::f16, -1e10) == 0xfc00);
  BOOST_TEST(encoded(Dtype::bf16, 1e300) == 0x7f80);
  BOOST_TEST(encoded(Dtype::bf16, -inf) == 0xff80);
  BOOST_TEST(round_to(Dtype::f32, 1e300) == inf);
  BOOST_TEST((encoded(Dtype::bf16, std::nan("")) & 0x7fff) > 0x7f80);
}

BOOST_AUTO_TEST_CASE(rounding_through_float_would_differ_and_does_not_happen) {
  // Just above halfway between 1 and the next bf16, by less than a float can see: up, not to even.
  const double value = 1.0 + 0x1p-8 + 0x1p-40;
  BOOST_TEST(round_to(Dtype::bf16, value) == 1.0 + 0x1p-7);
}

BOOST_AUTO_TEST_CASE(integers_round_to_even_and_saturate) {
  BOOST_TEST(round_to(Dtype::i8, 2.5) == 2);
  BOOST_TEST(round_to(Dtype::i8, 3.5) == 4);
  BOOST_TEST(round_to(Dtype::i8, 1000) == 127);
  BOOST_TEST(round_to(Dtype::i8, -1000) == -128);
  BOOST_TEST(round_to(Dtype::u16, -5) == 0);
  BOOST_TEST(round_to(Dtype::i32, 1e20) == 2147483647.0);
  const double big = 1e30;
  std::int64_t out = 0;
  encode(Dtype::i64, {&big, 1}, std::as_writable_bytes(std::span(&out, 1)));
  BOOST_TEST(out == std::numeric_limits<std::int64_t>::max());
}

BOOST_AUTO_TEST_CASE(epsilon_is_the_distance_from_one_to_the_next_value) {
  for (const Dtype type : {Dtype::f16, Dtype::bf16}) {
    const double next = all_values(type)[encoded(type, 1.0) + 1u];
    BOOST_TEST(next - 1.0 == epsilon_of(type));
  }
  BOOST_TEST(epsilon_of(Dtype::f32) == std::numeric_limits<float>::epsilon());
}

BOOST_AUTO_TEST_CASE(every_8_bit_float_decodes_by_definition_and_encodes_back) {
  const auto check = [](Dtype type, int fraction, int lowest, double most) {
    BOOST_TEST(size_of(type) == 1u);
    BOOST_TEST(is_floating(type));
    double largest = 0.0;
    for (int code = 0; code < 256; ++code) {
      const auto byte = static_cast<std::byte>(code);
      double value = 0.0;
      decode(type, {&byte, 1}, {&value, 1});
      const int exponent = (code & 0x7f) >> fraction, low = code & ((1 << fraction) - 1);
      const double size = exponent == 0 ? std::ldexp(low, lowest - fraction)
                                        : std::ldexp((1 << fraction) + low, lowest - fraction + exponent - 1);
      const double expected = code & 0x80 ? -size : size;
      if (size > most) {
        BOOST_TEST(!std::isfinite(value));
        continue;
      }
      BOOST_TEST(value == expected);
      largest = std::max(largest, value);
      std::byte again{};
      encode(type, {&value, 1}, {&again, 1});
      BOOST_TEST(static_cast<int>(again) == code);
    }
    BOOST_TEST(largest == most);
    BOOST_TEST(round_to(type, 1e9) == most);  // as CUDA's conversions
    BOOST_TEST(round_to(type, -std::numeric_limits<double>::infinity()) == -most);
    BOOST_TEST(std::isnan(round_to(type, std::nan(""))));
    BOOST_TEST(round_to(type, 1.0 + 0.75 * epsilon_of(type)) == 1.0 + epsilon_of(type));
    BOOST_TEST(round_to(type, 1.0 + 0.5 * epsilon_of(type)) == 1.0);  // a tie, to even
  };
  check(Dtype::e4m3, 3, -6, 448);
  check(Dtype::e5m2, 2, -14, 57344);
}

BOOST_AUTO_TEST_SUITE_END()
