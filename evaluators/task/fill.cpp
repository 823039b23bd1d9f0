// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/fill.hpp"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "evaluators/system/random.hpp"

namespace cultivar {

namespace {

// SplitMix64's finalizer applied to a counter: the random bits of element i depend only on (seed, i).
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
std::uint32_t bits_at(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t both = mixed(key + (index >> 1) * 0x9e3779b97f4a7c15u);
  return static_cast<std::uint32_t>(both >> (index & 1 ? 32 : 0));
}

// The normal quantile from a table. The leading bits of a float (exponent and `fraction` mantissa bits) of
// the tail probability index intervals that shrink with it. The tails are therefore as exact as the center
// (relative error below 1e-4, tails to 6.2 standard deviations), and one sample costs a hash, a look-up and a
// multiplication.
class NormalTable {
 public:
  NormalTable() {
    double x = 0.0;
    std::array<double, cells + 1> quantile{};
    for (int cell = cells; cell >= 0; --cell) {  // from the center (p = 1/2) outward
      const double p = std::bit_cast<float>(base + (static_cast<std::uint32_t>(cell) << shift)) * 0x1p-32;
      for (int i = 0; i < 50; ++i) {  // Newton's method on log Q, which is concave, so it cannot overshoot
        const double tail = 0.5 * std::erfc(x * std::sqrt(0.5));
        const double density = std::exp(-0.5 * x * x) * 0.39894228040143267794;
        const double step = tail / density * std::log(tail / p);
        x += step;
        if (std::abs(step) < 1e-15 * (1 + x)) break;
      }
      quantile[static_cast<std::size_t>(cell)] = x;
    }
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const double width = quantile[cell + 1] - quantile[cell];
      cells_[cell] = {static_cast<float>(quantile[cell]), static_cast<float>(width * 0x1p-16)};
    }
  }

  // Maps 32 random bits to a standard normal value.
  float operator()(std::uint32_t bits) const {
    const float tail = static_cast<float>(static_cast<std::int32_t>(bits & 0x7fffffffu) | 1);
    const std::uint32_t position = std::min(std::bit_cast<std::uint32_t>(tail) - base, end - 1);
    const Cell& cell = cells_[position >> shift];
    const float size = cell.start + cell.slope * static_cast<float>(static_cast<int>(position & 0xffffu));
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(size) | (bits & 0x80000000u));
  }

 private:
  struct Cell {
    float start, slope;
  };
  static constexpr int shift = 16;                    // 7 bits of mantissa remain
  static constexpr std::uint32_t base = 0x3f800000u;  // the bits of 1.0f
  static constexpr std::size_t cells = 31u << 7;      // tail counts 1 to 2^31
  static constexpr std::uint32_t end = static_cast<std::uint32_t>(cells) << shift;
  std::array<Cell, cells> cells_{};
};

const NormalTable& normal() {
  static const NormalTable table;
  return table;
}

float uniform(std::uint32_t bits) {
  return static_cast<float>(static_cast<std::int32_t>(bits >> 8)) * 0x1p-24f;
}

struct Axis {
  std::uint64_t extent = 1, stride = 1, lines = 1;
  std::uint64_t along(std::uint64_t i) const { return i / stride % extent; }
  std::uint64_t others(std::uint64_t i) const { return i / (stride * extent) * stride + i % stride; }
};

Axis axis_of(int axis, std::span<const std::int64_t> shape) {
  Axis result;
  const int rank = static_cast<int>(shape.size());
  result.extent = static_cast<std::uint64_t>(extent_along(axis, shape));
  if (rank == 0 || axis == kAllAxes) return result;
  const int index = std::clamp(axis < 0 ? rank + axis : axis, 0, rank - 1);
  for (int i = index + 1; i < rank; ++i)
    result.stride *= static_cast<std::uint64_t>(shape[static_cast<std::size_t>(i)]);
  return result;
}

// Generates values first .. first + out.size() of the tensor.
void generate(const Fill& fill, std::uint64_t key, std::uint64_t place_key, const Axis& axis,
              std::uint64_t first, std::span<float> out) {
  const auto a = static_cast<float>(fill.a), b = static_cast<float>(fill.b);
  const auto each = [&](auto value) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = value(first + i);
  };
  switch (fill.kind) {
    case Fill::Kind::normal: {
      const NormalTable& table = normal();
      return each([&](std::uint64_t i) { return a + b * table(bits_at(key, i)); });
    }
    case Fill::Kind::uniform:
      return each([&](std::uint64_t i) { return a + (b - a) * uniform(bits_at(key, i)); });
    case Fill::Kind::constant:
      return each([&](std::uint64_t) { return a; });
    case Fill::Kind::spread:
      return each([&](std::uint64_t i) {
        const std::uint32_t bits = bits_at(key, i);
        const float size = a * std::exp(b * (2.0f * uniform(bits) - 1.0f));
        return bits & 1u ? -size : size;
      });
    case Fill::Kind::rising: {
      const NormalTable& table = normal();
      const float slope = a / static_cast<float>(axis.extent);
      return each([&](std::uint64_t i) {
        return b * table(bits_at(key, i)) + slope * static_cast<float>(axis.along(i));
      });
    }
    case Fill::Kind::outliers: {
      const NormalTable& table = normal();
      // One line of each group; the last may be smaller.
      const std::uint64_t group = std::clamp<std::uint64_t>(axis.lines / 8, 2, 100);
      return each([&](std::uint64_t i) {
        const std::uint64_t line = axis.others(i), number = line / group;
        const std::uint64_t place =
            mixed(key ^ mixed(number + 1)) % std::min(group, axis.lines - number * group);
        return (line % group == place ? a * b : a) * table(bits_at(key, i));
      });
    }
    case Fill::Kind::hot: {
      const NormalTable& table = normal();
      const std::uint64_t place = mixed(place_key) % axis.extent;
      return each(
          [&](std::uint64_t i) { return (axis.along(i) == place ? a * b : a) * table(bits_at(key, i)); });
    }
    case Fill::Kind::one_hot:
      return each([&](std::uint64_t i) {
        const std::uint64_t place = mixed(key ^ mixed(axis.others(i) + 1)) % axis.extent;
        return place == axis.along(i) ? b : a;
      });
    case Fill::Kind::same_rows: {
      const NormalTable& table = normal();
      return each([&](std::uint64_t i) { return a + b * table(bits_at(key, axis.others(i))); });
    }
    case Fill::Kind::integers:
    case Fill::Kind::permutation:
    case Fill::Kind::lengths:
    case Fill::Kind::offsets:
      return;  // fill_lines
  }
}

constexpr std::size_t kSureOfLast = 8;  // elements of a tensor of integers

// Fills a tensor of whole numbers, which are exact to 2^53, line by line along the axis.
void fill_lines(const Fill& fill, std::uint64_t key, const Axis& axis, Dtype type, std::span<std::byte> out) {
  const std::size_t width = size_of(type), extent = axis.extent, stride = axis.stride;
  const std::size_t lines = out.size() / width / std::max<std::size_t>(1, extent);
  tbb::parallel_for(std::size_t{0}, lines, [&](std::size_t number) {
    std::vector<double> line(extent);
    fill_line(fill, mixed(key ^ mixed(number + 1)), line);
    const std::size_t first = number / stride * stride * extent + number % stride;
    for (std::size_t i = 0; i < extent; ++i)
      encode(type, std::span(line).subspan(i, 1), out.subspan((first + i * stride) * width, width));
  });
  // At least one element of all has the last value of the range.
  if (const std::size_t count = out.size() / width;
      fill.kind == Fill::Kind::integers && count >= kSureOfLast) {
    const double last = fill.b - 1.0;
    encode(type, std::span(&last, 1), out.subspan(mixed(~key) % count * width, width));
  }
}

// Converts the generated floats to elements of the tensor.
void store(Dtype type, std::span<const float> values, std::byte* out) {
  if (type == Dtype::f32) {
    std::memcpy(out, values.data(), values.size_bytes());
    return;
  }
  if (type == Dtype::bf16) {  // all values are finite, so rounding to nearest even is one addition
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[i]);
      const auto half = static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
      std::memcpy(out + 2 * i, &half, 2);
    }
    return;
  }
  std::array<double, 1024> doubles;
  std::copy(values.begin(), values.end(), doubles.begin());
  encode(type, std::span(doubles).first(values.size()), {out, values.size() * size_of(type)});
}

}  // namespace

std::int64_t extent_along(int axis, std::span<const std::int64_t> shape) {
  const int rank = static_cast<int>(shape.size());
  if (rank == 0 || axis == kAllAxes)
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  return shape[static_cast<std::size_t>(std::clamp(axis < 0 ? rank + axis : axis, 0, rank - 1))];
}

void fill_tensor(const Fill& fill, std::uint64_t seed, std::span<const std::int64_t> shape, Dtype type,
                 std::span<std::byte> out, std::optional<std::uint64_t> place) {
  constexpr std::size_t block = 1024;
  const std::size_t count = out.size() / size_of(type);
  const std::uint64_t key = mixed(seed + 0x632be59bd9b4e019u);
  const std::uint64_t place_key = place ? mixed(*place + 0x632be59bd9b4e019u) : key;
  Axis axis = axis_of(fill.axis, shape);
  axis.lines = std::max<std::uint64_t>(1, count / std::max<std::uint64_t>(1, axis.extent));
  if (is_whole(fill.kind)) return fill_lines(fill, key, axis, type, out);
  const auto fill_blocks = [&](std::size_t first, std::size_t last) {
    std::array<float, block> values;
    for (std::size_t i = first; i < last; i += block) {
      const std::span<float> part(values.data(), std::min(block, last - i));
      generate(fill, key, place_key, axis, i, part);
      store(type, part, out.data() + i * size_of(type));
    }
  };
  constexpr std::size_t grain = 64 * block;
  if (count <= 2 * grain) return fill_blocks(0, count);
  tbb::parallel_for(std::size_t{0}, (count + grain - 1) / grain, [&](std::size_t part) {
    fill_blocks(part * grain, std::min(count, (part + 1) * grain));
  });
}

namespace {

// A kernel that is wrong at the end of a range meets it, however wide the range is.
constexpr double kShareOfLast = 1.0 / 32.0;

void draw_integers(const Fill& fill, RandomStream& stream, std::span<double> line) {
  const double count = fill.b - fill.a;
  for (double& value : line) {
    const bool rare = fill.share > 0.0 && cultivar::uniform(stream) < fill.share;
    const double place = cultivar::uniform(stream) * (1.0 + kShareOfLast) * count;
    value = rare ? fill.instead : fill.a + std::floor(std::min(place, count - 1.0));
  }
}

void draw_permutation(const Fill& fill, RandomStream& stream, std::span<double> line) {
  for (std::size_t i = 0; i < line.size(); ++i) line[i] = fill.a + static_cast<double>(i);
  shuffle(line, stream);
}

// line[0] = 0, line[n] = b, with steps of at least a: random places, in order, of what is above the minimum.
void draw_offsets(const Fill& fill, RandomStream& stream, std::span<double> line) {
  const double steps = static_cast<double>(line.size() - 1), room = fill.b - fill.a * steps;
  line.front() = 0.0;
  if (line.size() == 1) return;
  line.back() = room;
  for (std::size_t i = 1; i + 1 < line.size(); ++i)
    line[i] = std::floor(cultivar::uniform(stream) * (room + 1.0));
  std::sort(line.begin(), line.end());
  for (std::size_t i = 1; i < line.size(); ++i) line[i] += fill.a * static_cast<double>(i);
}

}  // namespace

std::string trouble_of(const Fill& fill, std::int64_t extent, Dtype dtype) {
  const double steps = static_cast<double>(extent);
  double least = fill.a, most = fill.b;
  for (const double number : {fill.a, fill.b, fill.instead})
    if (number != std::floor(number)) return fmt::format("{} is not a whole number", number);
  switch (fill.kind) {
    case Fill::Kind::integers:
      if (fill.b <= fill.a) return fmt::format("b = {} must be greater than a = {}", fill.b, fill.a);
      least = std::min(fill.a, fill.instead), most = std::max(fill.b - 1.0, fill.instead);
      break;
    case Fill::Kind::permutation:
      most = fill.a + steps - 1.0;
      break;
    default: {
      const double parts = fill.kind == Fill::Kind::lengths ? steps : steps - 1.0;
      if (fill.a < 0.0) return fmt::format("a = {} must not be negative", fill.a);
      if (fill.b < fill.a * parts)
        return fmt::format("b = {} must be at least a * {} = {}", fill.b, parts, fill.a * parts);
      least = 0.0;
    }
  }
  for (const double number : {least, most})
    if (round_to(dtype, number) != number)
      return fmt::format("{} does not fit the dtype {}", number, name_of(dtype));
  return {};
}

void fill_line(const Fill& fill, std::uint64_t seed, std::span<double> line) {
  if (line.empty()) return;
  RandomStream stream = stream_of(seed, "whole numbers", 0);
  if (fill.kind == Fill::Kind::integers) return draw_integers(fill, stream, line);
  if (fill.kind == Fill::Kind::permutation) return draw_permutation(fill, stream, line);
  if (fill.kind == Fill::Kind::offsets) return draw_offsets(fill, stream, line);
  std::vector<double> ends(line.size() + 1);
  draw_offsets(fill, stream, ends);
  for (std::size_t i = 0; i < line.size(); ++i) line[i] = ends[i + 1] - ends[i];
}

}  // namespace cultivar
