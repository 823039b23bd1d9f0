// SPDX-License-Identifier: Apache-2.0
#include "evaluators/dtype/dtype.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace cultivar {
namespace {

struct Row {
  std::string_view name;
  std::size_t bytes;
  bool floating;
  double epsilon;
};
constexpr std::array<Row, dtype_count> rows{{{"f64", 8, true, 0x1p-52},
                                             {"f32", 4, true, 0x1p-23},
                                             {"f16", 2, true, 0x1p-10},
                                             {"bf16", 2, true, 0x1p-7},
                                             {"i64", 8, false, 0},
                                             {"i32", 4, false, 0},
                                             {"i16", 2, false, 0},
                                             {"i8", 1, false, 0},
                                             {"u64", 8, false, 0},
                                             {"u32", 4, false, 0},
                                             {"u16", 2, false, 0},
                                             {"u8", 1, false, 0},
                                             {"e4m3", 1, true, 0x1p-3},
                                             {"e5m2", 1, true, 0x1p-2}}};
const Row& row_of(Dtype type) {
  return rows[static_cast<std::size_t>(type)];
}

// Rounds to the nearest value, ties to even, of a binary format with `precision` significant bits and
// smallest normal exponent `lowest`, by adding and subtracting a number whose last place equals the format's
// last place at x.
template <int precision, int lowest>
double round_binary(double x) {
  const int exponent = static_cast<int>((std::bit_cast<std::uint64_t>(x) >> 52) & 0x7ff) - 1023;
  if (exponent > 1000) return x;  // far out of range (or not finite): the caller converts it to infinity
  const int place = (exponent < lowest ? lowest : exponent) - (precision - 1);
  const double shift = std::bit_cast<double>(static_cast<std::uint64_t>(place + 52 + 1023) << 52) * 1.5;
  const double rounded = (x + shift) - shift;
  return rounded == 0.0 ? std::copysign(0.0, x) : rounded;
}

double round_f16(double x) {
  const double y = round_binary<11, -14>(x);
  return std::abs(y) > 65504.0 ? std::copysign(std::numeric_limits<double>::infinity(), x) : y;
}
double round_bf16(double x) {
  const double y = round_binary<8, -126>(x);
  return std::abs(y) > 0x1.fep127 ? std::copysign(std::numeric_limits<double>::infinity(), x) : y;
}

double from_f16(std::uint16_t h) {
  const std::uint32_t magnitude = h & 0x7fffu;
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  // Except for infinity and NaN, the bits of a half are those of a float 2^112 times smaller.
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f) |
                              sign);
}
std::uint16_t to_f16(double x) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000u : 0u);
  if (std::isnan(x)) return sign | 0x7e00u;
  const double y = std::abs(round_f16(x));
  if (std::isinf(y)) return sign | 0x7c00u;
  if (y < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(y * 0x1p24));
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(y) >> 42;
  return static_cast<std::uint16_t>(sign | (bits - (std::uint64_t{1023 - 15} << 10)));
}
double from_bf16(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}
std::uint16_t to_bf16(double x) {
  if (std::isnan(x)) return static_cast<std::uint16_t>(std::signbit(x) ? 0xffc0u : 0x7fc0u);
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(round_bf16(x))) >> 16);
}

// The 8-bit floating types: `fraction` bits of fraction, the smallest normal number 2^`lowest`, the largest
// number `most`. Above it e5m2 has infinity and NaN, e4m3 only NaN.
template <int fraction, int lowest, int most>
double round_f8(double x) {
  if (std::isnan(x)) return x;
  const double y = round_binary<fraction + 1, lowest>(std::isinf(x) ? std::copysign(most, x) : x);
  return std::abs(y) > most ? std::copysign(most, x) : y;
}
template <int fraction, int lowest, int most>
double from_f8(std::uint8_t bits) {
  const int exponent = (bits & 0x7f) >> fraction, low = bits & ((1 << fraction) - 1);
  const double unit = std::ldexp(1.0, lowest - fraction);
  double value =
      exponent == 0 ? low * unit : std::ldexp((1 << fraction) + low, lowest - fraction + exponent - 1);
  if (value > most) {
    value = std::numeric_limits<double>::quiet_NaN();
    if (low == 0 && fraction == 2) value = std::numeric_limits<double>::infinity();
  }
  return bits & 0x80 ? -value : value;
}
template <int fraction, int lowest, int most>
std::uint8_t to_f8(double x) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return static_cast<std::uint8_t>(sign | 0x7f);
  const double y = std::abs(round_f8<fraction, lowest, most>(x));
  if (y == 0.0) return static_cast<std::uint8_t>(sign);
  const int exponent = std::max(std::ilogb(y), lowest);
  const int significand =
      static_cast<int>(std::ldexp(y, fraction - exponent));  // below 2^fraction: subnormal
  return static_cast<std::uint8_t>(sign | (((exponent - lowest) << fraction) + significand));
}
constexpr auto round_e4m3 = round_f8<3, -6, 448>;
constexpr auto round_e5m2 = round_f8<2, -14, 57344>;

template <class T>
T to_integer(double x) {
  const double y = std::nearbyint(x);
  if (std::isnan(y)) return 0;
  // For 64-bit types the limits round up when converted to double, hence >=.
  if (y >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  if (y <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(y);
}

template <class T>
double plain(T x) {
  return static_cast<double>(x);
}
double same(double x) {
  return x;
}
float to_f32(double x) {
  return static_cast<float>(x);
}

template <class T, double (*convert)(T)>
void decode_as(std::span<const std::byte> in, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T element;
    std::memcpy(&element, in.data() + i * sizeof(T), sizeof(T));
    out[i] = convert(element);
  }
}
template <class T, T (*convert)(double)>
void encode_as(std::span<const double> in, std::span<std::byte> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const T element = convert(in[i]);
    std::memcpy(out.data() + i * sizeof(T), &element, sizeof(T));
  }
}
template <class T>
constexpr auto decode_plainly = decode_as<T, plain<T>>;
template <class T>
constexpr auto encode_integer = encode_as<T, to_integer<T>>;

}  // namespace

std::size_t size_of(Dtype type) {
  return row_of(type).bytes;
}
std::string_view name_of(Dtype type) {
  return row_of(type).name;
}
bool is_floating(Dtype type) {
  return row_of(type).floating;
}
double accumulation_epsilon(Dtype dtype) {
  return epsilon_of(size_of(dtype) == 8 ? Dtype::f64 : Dtype::f32);
}

double epsilon_of(Dtype type) {
  return row_of(type).epsilon;
}

std::optional<Dtype> dtype_named(std::string_view name) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].name == name) return static_cast<Dtype>(i);
  return std::nullopt;
}

void decode(Dtype type, std::span<const std::byte> in, std::span<double> out) {
  assert(in.size() == out.size() * size_of(type));
  static constexpr std::array decoders{decode_plainly<double>,
                                       decode_plainly<float>,
                                       decode_as<std::uint16_t, from_f16>,
                                       decode_as<std::uint16_t, from_bf16>,
                                       decode_plainly<std::int64_t>,
                                       decode_plainly<std::int32_t>,
                                       decode_plainly<std::int16_t>,
                                       decode_plainly<std::int8_t>,
                                       decode_plainly<std::uint64_t>,
                                       decode_plainly<std::uint32_t>,
                                       decode_plainly<std::uint16_t>,
                                       decode_plainly<std::uint8_t>,
                                       decode_as<std::uint8_t, from_f8<3, -6, 448>>,
                                       decode_as<std::uint8_t, from_f8<2, -14, 57344>>};
  decoders[static_cast<std::size_t>(type)](in, out);
}

void encode(Dtype type, std::span<const double> in, std::span<std::byte> out) {
  assert(out.size() == in.size() * size_of(type));
  static constexpr std::array encoders{encode_as<double, same>,
                                       encode_as<float, to_f32>,
                                       encode_as<std::uint16_t, to_f16>,
                                       encode_as<std::uint16_t, to_bf16>,
                                       encode_integer<std::int64_t>,
                                       encode_integer<std::int32_t>,
                                       encode_integer<std::int16_t>,
                                       encode_integer<std::int8_t>,
                                       encode_integer<std::uint64_t>,
                                       encode_integer<std::uint32_t>,
                                       encode_integer<std::uint16_t>,
                                       encode_integer<std::uint8_t>,
                                       encode_as<std::uint8_t, to_f8<3, -6, 448>>,
                                       encode_as<std::uint8_t, to_f8<2, -14, 57344>>};
  encoders[static_cast<std::size_t>(type)](in, out);
}

double round_to(Dtype type, double value) {
  switch (type) {
    case Dtype::f64:
      return value;
    case Dtype::f32:
      return static_cast<double>(static_cast<float>(value));
    case Dtype::f16:
      return round_f16(value);
    case Dtype::bf16:
      return round_bf16(value);
    case Dtype::e4m3:
      return round_e4m3(value);
    case Dtype::e5m2:
      return round_e5m2(value);
    default: {
      std::array<std::byte, 8> bytes{};
      double result = 0;
      const std::span<std::byte> element(bytes.data(), size_of(type));
      encode(type, {&value, 1}, element);
      decode(type, element, {&result, 1});
      return result;
    }
  }
}

}  // namespace cultivar
