// SPDX-License-Identifier: Apache-2.0
// Element types of tensors and kernel arguments, and exact conversion to and from double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace cultivar {

// e4m3 and e5m2 are the 8-bit floating types of the OCP standard; e4m3 has no infinity.
enum class Dtype : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, e4m3, e5m2 };
inline constexpr int dtype_count = 14;

std::size_t size_of(Dtype);       // bytes
std::string_view name_of(Dtype);  // "bf16"
std::optional<Dtype> dtype_named(std::string_view name);
bool is_floating(Dtype);
double epsilon_of(Dtype);  // distance from 1 to the next value; 0 for integers
double accumulation_epsilon(
    Dtype);  // epsilon of the accumulation type: f64 for f64 and 64-bit integers, otherwise f32

// Exact for every type except 64-bit integers beyond 2^53. `out` holds one double per element.
void decode(Dtype, std::span<const std::byte> elements, std::span<double> out);
// Rounds to nearest, ties to even; values out of range become infinity (floating) or saturate (integers and
// 8-bit floating types, whose conversions on a GPU do the same).
void encode(Dtype, std::span<const double> values, std::span<std::byte> out);
double round_to(Dtype, double value);

}  // namespace cultivar
