// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/tensor_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "evaluators/variant/plan_scope.hpp"

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

namespace {

// The limits are those of cuTensorMapEncodeTiled in the CUDA driver API reference.

std::uint64_t bytes_named(const std::string& name) {
  return name == "none" ? 0 : std::stoull(name);
}

class MapPlanner {
 public:
  MapPlanner(const TensorMapSpec& spec, const Bindings& scope) : spec_(spec), scope_(scope) {}

  Expected<PlannedTensorMap> plan(int buffer, Dtype dtype, std::size_t buffer_bytes) {
    PlannedTensorMap map;
    map.name = spec_.name;
    map.buffer = buffer;
    map.dtype = dtype;
    map.swizzle = spec_.swizzle;
    map.interleave = spec_.interleave;
    map.l2_promotion = spec_.l2_promotion;
    map.out_of_bounds = spec_.out_of_bounds;
    const std::uint64_t element = size_of(dtype);
    const std::size_t rank = spec_.sizes.size();
    for (std::size_t i = 0; i < rank; ++i) {
      map.sizes.push_back(number("sizes", i, spec_.sizes[i], 1, std::uint64_t{1} << 32));
      map.box.push_back(static_cast<std::uint32_t>(number("box", i, spec_.box[i], 1, 256)));
      map.element_strides.push_back(
          spec_.element_strides.empty()
              ? 1u
              : static_cast<std::uint32_t>(number("element_strides", i, spec_.element_strides[i], 1, 8)));
    }
    const std::uint64_t multiple = spec_.interleave == "32B" ? 32 : 16;
    for (std::size_t i = 0; i < spec_.strides.size(); ++i) {
      const std::uint64_t bytes = number("strides", i, spec_.strides[i], 1, std::uint64_t{1} << 40) * element;
      if (bytes % multiple != 0)
        fail("strides", i,
             fmt::format(
                 "is {} bytes, which is not a multiple of {} (use another tensor or dimension order, or "
                 "no tensor map for this shape)",
                 bytes, multiple));
      if (bytes >= std::uint64_t{1} << 40)
        fail("strides", i, fmt::format("is {} bytes; the limit is 2^40", bytes));
      map.stride_bytes.push_back(bytes);
    }
    check_inner_box(map, element);
    if (spec_.out_of_bounds == "nan" && !is_floating(dtype))
      fail("out_of_bounds", 0, fmt::format("nan needs a floating dtype, not {}", name_of(dtype)));
    if (dtype == Dtype::i8 || dtype == Dtype::i16)  // CUtensorMapDataType lacks them
      fail("tensor", 0, fmt::format("tensor maps do not support dtype {}", name_of(dtype)));
    check_extent(map, element, buffer_bytes);
    if (!error_.empty()) return failure("plan", error_);
    return map;
  }

 private:
  void fail(const std::string& key, std::size_t index, const std::string& what) {
    if (error_.empty()) error_ = fmt::format("tensor_maps.{}.{}[{}]: {}", spec_.name, key, index, what);
  }

  std::uint64_t number(const char* key, std::size_t index, const Expression& expression, std::uint64_t least,
                       std::uint64_t most) {
    const Expected<std::int64_t> value =
        expression.evaluate_integer(scope_, static_cast<std::int64_t>(least));
    if (!value) {
      fail(key, index, value.error().message);
      return least;
    }
    if (static_cast<std::uint64_t>(*value) > most)
      fail(key, index, fmt::format("{}; the limit is {}", said(expression.text(), *value), most));
    return static_cast<std::uint64_t>(*value);
  }

  void check_inner_box(const PlannedTensorMap& map, std::uint64_t element) {
    const std::uint64_t inner = map.box[0] * element;
    if (spec_.interleave == "none" && inner % 16 != 0)
      fail("box", 0,
           fmt::format("{} elements are {} bytes, which is not a multiple of 16 (make it a multiple of {})",
                       map.box[0], inner, std::max<std::uint64_t>(1, 16 / element)));
    const std::uint64_t span = bytes_named(spec_.swizzle);
    if (span != 0 && spec_.interleave == "none" && inner > span)
      fail("box", 0,
           fmt::format("{} elements are {} bytes, more than the swizzle's {} (make the inner box at most {} "
                       "elements)",
                       map.box[0], inner, span, span / element));
    if (spec_.interleave == "none" && map.element_strides[0] != 1)
      fail("element_strides", 0, "without an interleave the innermost dimension must have step 1 (write 1)");
    std::uint64_t elements = 1;
    for (std::size_t i = 0; i < map.box.size(); ++i)
      elements *= (map.box[i] + map.element_strides[i] - 1) / map.element_strides[i];
    if (elements * element > 232448)
      fail("box", 0,
           fmt::format("the box has {} bytes, more than a block's shared memory (make it smaller)",
                       elements * element));
  }

  // Everything the map can reach must lie in the tensor, so that a map cannot bypass the guards.
  void check_extent(const PlannedTensorMap& map, std::uint64_t element, std::size_t buffer_bytes) {
    if (!error_.empty()) return;
    double last = static_cast<double>(map.sizes[0]) * static_cast<double>(element);
    for (std::size_t i = 1; i < map.sizes.size(); ++i)
      last += static_cast<double>(map.sizes[i] - 1) * static_cast<double>(map.stride_bytes[i - 1]);
    if (last > static_cast<double>(buffer_bytes))
      fail("sizes", 0,
           fmt::format("the map reaches byte {} of '{}', which has only {} bytes (check sizes and strides)",
                       last, spec_.tensor, buffer_bytes));
  }

  const TensorMapSpec& spec_;
  const Bindings& scope_;
  std::string error_;  // the first error
};

}  // namespace

Expected<PlannedTensorMap> plan_tensor_map(const TensorMapSpec& spec, int buffer, Dtype dtype,
                                           std::size_t buffer_bytes, const Bindings& scope) {
  return MapPlanner(spec, scope).plan(buffer, dtype, buffer_bytes);
}

}  // namespace cultivar
