// SPDX-License-Identifier: Apache-2.0
// The limits are those of cuTensorMapEncodeTiled in the CUDA driver API reference.
#include <fmt/format.h>

#include <algorithm>

#include "evaluators/devices/cuda/code/tensor_map.hpp"
#include "evaluators/variant/plan_scope.hpp"

namespace cultivar {
namespace {

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
