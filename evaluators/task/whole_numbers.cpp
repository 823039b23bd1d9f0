// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/whole_numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "evaluators/system/random.hpp"

namespace cultivar {
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
