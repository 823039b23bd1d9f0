// SPDX-License-Identifier: Apache-2.0
#include "evaluators/timing/drawn_values.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "evaluators/system/secret.hpp"

namespace cultivar {
namespace {

// Two tables of this many floats fit in a second-level cache.
constexpr std::size_t kTable = std::size_t{1} << 15;
// The elements for which places and angle are drawn. A shorter block costs more.
constexpr std::size_t kBlock = 1024;
// fill_tensor costs 5 ns for a normal element, which is little for so few.
constexpr std::size_t kLeast = 8 * kBlock;
// Of a tensor, what one thread draws at a time.
constexpr std::size_t kGrain = 64 * kBlock;

}  // namespace

DrawnValues::DrawnValues(const Fill& fill, std::uint64_t seed) : fill_(fill) {
  Fill standard{fill.kind, 0.0, 1.0, -1};
  if (fill.kind != Fill::Kind::normal && fill.kind != Fill::Kind::uniform) return;
  tables_.resize(2 * kTable);
  const std::array<std::int64_t, 1> line{static_cast<std::int64_t>(tables_.size())};
  fill_tensor(standard, derive_seed(seed, "tables"), line, Dtype::f32,
              std::as_writable_bytes(std::span(tables_)));
}

void DrawnValues::block(std::uint64_t seed, std::uint64_t number, std::span<float> out) const {
  const std::uint64_t places = derive_seed(seed, "places", number),
                      angles = derive_seed(seed, "angle", number);
  const float* const first = tables_.data() + places % (kTable - kBlock);
  const float* const second = tables_.data() + kTable + (places >> 32) % (kTable - kBlock);
  const auto a = static_cast<float>(fill_.a), b = static_cast<float>(fill_.b);
  std::array<float, kBlock> block;
  if (fill_.kind == Fill::Kind::uniform) {
    for (std::size_t i = 0; i < kBlock; ++i) {
      const float sum = first[i] + second[i];
      block[i] = a + (b - a) * (sum >= 1.0f ? sum - 1.0f : sum);
    }
  } else {
    // In every quadrant, but not near an axis, where a value would be almost that of one table.
    const double unit = static_cast<double>(angles >> 11) * 0x1p-53;
    const double angle = std::numbers::pi * (0.125 + 0.25 * unit + 0.5 * static_cast<double>(angles & 3u));
    const float c = b * static_cast<float>(std::cos(angle)), s = b * static_cast<float>(std::sin(angle));
    for (std::size_t i = 0; i < kBlock; ++i) block[i] = a + c * first[i] + s * second[i];
  }
  std::copy_n(block.begin(), out.size(), out.begin());
}

void DrawnValues::draw(std::uint64_t seed, std::span<const std::int64_t> shape, Dtype dtype,
                       std::span<std::byte> out, std::span<double> values) const {
  const std::size_t width = size_of(dtype), count = out.size() / width;
  if (tables_.empty() || count < kLeast) {
    fill_tensor(fill_, seed, shape, dtype, out);
    return decode(dtype, out, values);
  }
  const auto part = [&](std::size_t begin, std::size_t end) {
    std::array<float, kBlock> floats;
    for (std::size_t i = begin; i < end; i += kBlock) {
      const std::size_t some = std::min(kBlock, end - i);
      const std::span<double> exact = values.subspan(i, some);
      const std::span<std::byte> stored = out.subspan(i * width, some * width);
      block(seed, i / kBlock, std::span(floats).first(some));
      std::copy_n(floats.begin(), some, exact.begin());
      if (dtype == Dtype::f32) {
        std::memcpy(stored.data(), floats.data(), stored.size());
      } else {
        encode(dtype, exact, stored);
        decode(dtype, stored, exact);
      }
    }
  };
  if (count <= 2 * kGrain) return part(0, count);
  tbb::parallel_for(std::size_t{0}, (count + kGrain - 1) / kGrain,
                    [&](std::size_t i) { part(i * kGrain, std::min(count, (i + 1) * kGrain)); });
}

}  // namespace cultivar
