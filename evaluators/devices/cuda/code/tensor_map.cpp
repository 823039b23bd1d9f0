// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/tensor_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace cultivar {
namespace {

// The enumerators of cuda.h, in the same order.
std::optional<std::uint32_t> data_type(Dtype dtype) {
  static constexpr std::array order{Dtype::u8,  Dtype::u16, Dtype::u32, Dtype::i32, Dtype::u64,
                                    Dtype::i64, Dtype::f16, Dtype::f32, Dtype::f64, Dtype::bf16};
  const bool byte = dtype == Dtype::e4m3 || dtype == Dtype::e5m2;
  const auto found = std::ranges::find(order, byte ? Dtype::u8 : dtype);
  if (found == order.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - order.begin());
}

template <std::size_t N>
std::optional<std::uint32_t> place(const std::array<std::string_view, N>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - names.begin());
}
constexpr std::array<std::string_view, 3> interleaves{"none", "16B", "32B"};
constexpr std::array<std::string_view, 4> swizzles{"none", "32B", "64B", "128B"};
constexpr std::array<std::string_view, 4> promotions{"none", "64B", "128B", "256B"};
constexpr std::array<std::string_view, 2> fills{"zero", "nan"};

class MapChecker {
 public:
  explicit MapChecker(const PlannedTensorMap& map) : map_(map), element_(size_of(map.dtype)) {}

  Expected<TensorMapArguments> arguments() {
    TensorMapArguments a;
    const std::size_t rank = map_.sizes.size();
    if (rank < 1 || rank > 5)
      fail("sizes", fmt::format("has rank {}; a tensor map has 1 to 5 dimensions", rank));
    if (map_.stride_bytes.size() + 1 != rank)
      fail("strides",
           fmt::format("has {} entries; rank {} needs {}", map_.stride_bytes.size(), rank, rank - 1));
    if (map_.box.size() != rank)
      fail("box", fmt::format("has {} entries; rank {} needs {}", map_.box.size(), rank, rank));
    if (map_.element_strides.size() != rank)
      fail("element_strides",
           fmt::format("has {} entries; rank {} needs {}", map_.element_strides.size(), rank, rank));
    if (!error_.empty()) return failure("tensor map", error_);

    a.rank = static_cast<std::uint32_t>(rank);
    a.data_type = known("tensor", data_type(map_.dtype), fmt::format("dtype {}", name_of(map_.dtype)));
    a.interleave = known("interleave", place(interleaves, map_.interleave), map_.interleave);
    a.swizzle = known("swizzle", place(swizzles, map_.swizzle), map_.swizzle);
    a.l2_promotion = known("l2_promotion", place(promotions, map_.l2_promotion), map_.l2_promotion);
    a.out_of_bounds = known("out_of_bounds", place(fills, map_.out_of_bounds), map_.out_of_bounds);
    if (!error_.empty()) return failure("tensor map", error_);

    for (std::size_t i = 0; i < rank; ++i) check_dimension(i);
    for (std::size_t i = 0; i + 1 < rank; ++i) check_stride(i);
    check_inner_box(a);
    if (a.interleave != 0 && rank < 3)
      fail("interleave", fmt::format("an interleaved layout needs rank 3 or more, not {}", rank));
    if (map_.interleave == "32B" && map_.swizzle != "32B")
      fail("swizzle", "interleave 32B needs swizzle 32B");
    if (map_.out_of_bounds == "nan" && !is_floating(map_.dtype))
      fail("out_of_bounds",
           fmt::format("nan needs a floating dtype, not {} (write zero)", name_of(map_.dtype)));
    if (!error_.empty()) return failure("tensor map", error_);

    std::copy(map_.sizes.begin(), map_.sizes.end(), a.sizes.begin());
    std::copy(map_.stride_bytes.begin(), map_.stride_bytes.end(), a.stride_bytes.begin());
    std::copy(map_.box.begin(), map_.box.end(), a.box.begin());
    std::copy(map_.element_strides.begin(), map_.element_strides.end(), a.element_strides.begin());
    return a;
  }

 private:
  void fail(const std::string& field, const std::string& what) {
    if (error_.empty()) error_ = fmt::format("tensor_maps.{}.{}: {}", map_.name, field, what);
  }
  static std::string at(const char* field, std::size_t i) { return fmt::format("{}[{}]", field, i); }

  std::uint32_t known(const char* field, std::optional<std::uint32_t> value, const std::string& name) {
    if (!value) fail(field, fmt::format("tensor maps do not support {}", name));
    return value.value_or(0);
  }

  void check_dimension(std::size_t i) {
    if (map_.sizes[i] < 1 || map_.sizes[i] > std::uint64_t{1} << 32)
      fail(at("sizes", i), fmt::format("is {}; it must be 1 to 2^32", map_.sizes[i]));
    if (map_.box[i] < 1 || map_.box[i] > 256)
      fail(at("box", i), fmt::format("is {}; it must be 1 to 256 (several copies move more)", map_.box[i]));
    if (map_.element_strides[i] < 1 || map_.element_strides[i] > 8)
      fail(at("element_strides", i), fmt::format("is {}; it must be 1 to 8", map_.element_strides[i]));
  }

  void check_stride(std::size_t i) {
    const std::uint64_t bytes = map_.stride_bytes[i], multiple = map_.interleave == "32B" ? 32 : 16;
    if (bytes % multiple != 0)
      fail(at("strides", i),
           fmt::format("is {} bytes, which is not a multiple of {} (order the dimensions so that the "
                       "contiguous one is first, or use no tensor map for this shape)",
                       bytes, multiple));
    if (bytes >= std::uint64_t{1} << 40)
      fail(at("strides", i), fmt::format("is {} bytes; it must be below 2^40", bytes));
  }

  void check_inner_box(const TensorMapArguments& a) {
    const std::uint64_t inner = map_.box[0] * element_;
    if (a.interleave != 0) return;
    if (inner % 16 != 0)
      fail("box[0]",
           fmt::format("{} elements are {} bytes, which is not a multiple of 16", map_.box[0], inner));
    const std::uint64_t span = a.swizzle == 0 ? 0 : std::uint64_t{16} << a.swizzle;
    if (span != 0 && inner > span)
      fail("box[0]",
           fmt::format(
               "{} elements are {} bytes, more than the swizzle's {} (make it at most {} elements, and "
               "copy several boxes)",
               map_.box[0], inner, span, span / element_));
  }

  const PlannedTensorMap& map_;
  std::uint64_t element_;
  std::string error_;  // the first error
};

}  // namespace

Expected<TensorMapArguments> tensor_map_arguments(const PlannedTensorMap& map) {
  return MapChecker(map).arguments();
}

Expected<void> check_address(const PlannedTensorMap& map, std::uint64_t address) {
  const std::uint64_t multiple = map.interleave == "32B" ? 32 : 16;
  if (address % multiple == 0) return {};
  return failure("tensor map",
                 fmt::format("tensor_maps.{}.tensor: lies at {:#x}, which is not a multiple of {}", map.name,
                             address, multiple));
}

}  // namespace cultivar
