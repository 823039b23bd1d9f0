// SPDX-License-Identifier: Apache-2.0
// A planned tensor map as the arguments of cuTensorMapEncodeTiled. These are plain numbers with the driver's
// enumerator values, so that the host half needs no CUDA header.
#pragma once

#include <array>
#include <cstdint>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

struct TensorMapArguments {
  std::uint32_t data_type = 0;                     // CUtensorMapDataType
  std::uint32_t rank = 0;                          // 1 to 5
  std::array<std::uint64_t, 5> sizes{};            // globalDim: elements, innermost first
  std::array<std::uint64_t, 4> stride_bytes{};     // globalStrides: of dimensions 1 to rank - 1
  std::array<std::uint32_t, 5> box{};              // boxDim: elements
  std::array<std::uint32_t, 5> element_strides{};  // elementStrides
  std::uint32_t interleave = 0;                    // CUtensorMapInterleave
  std::uint32_t swizzle = 0;                       // CUtensorMapSwizzle
  std::uint32_t l2_promotion = 0;                  // CUtensorMapL2promotion
  std::uint32_t out_of_bounds = 0;                 // CUtensorMapFloatOOBfill

  friend bool operator==(const TensorMapArguments&, const TensorMapArguments&) = default;
};

constexpr std::size_t tensor_map_bytes = 128;     // size of an encoded map, which is a kernel argument
constexpr std::size_t tensor_map_alignment = 64;  // alignment of that argument

// Evaluates every expression of a tensor map and checks the rules of cuTensorMapEncodeTiled.
Expected<PlannedTensorMap> plan_tensor_map(const TensorMapSpec&, int buffer, Dtype, std::size_t buffer_bytes,
                                           const Bindings&);
// Checks every rule of the driver API reference that does not depend on the address again, because a plan
// need not come from make_plan. The Error names the map, field, rule and remedy.
Expected<TensorMapArguments> tensor_map_arguments(const PlannedTensorMap&);
// The address rule: a multiple of 16 bytes, or of 32 with interleave 32B.
Expected<void> check_address(const PlannedTensorMap&, std::uint64_t address);

}  // namespace cultivar
