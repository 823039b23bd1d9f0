// SPDX-License-Identifier: Apache-2.0
#include "evaluators/check/error_sums.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace cultivar {

bool same_non_finite(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b;
}

double overflow_of(Dtype dtype) {
  constexpr double kRoundings = 8.0;
  const auto of = [](Dtype each) {
    for (int power = 0; power < 1024; ++power)
      if (std::isinf(round_to(each, std::ldexp(1.0, power))))
        return std::ldexp(1.0, power) * (1.0 - kRoundings * epsilon_of(each));
    return std::numeric_limits<double>::infinity();
  };
  static const double f16 = of(Dtype::f16), bf16 = of(Dtype::bf16), f32 = of(Dtype::f32);
  return dtype == Dtype::f16 ? f16 : dtype == Dtype::bf16 ? bf16 : dtype == Dtype::f32 ? f32 : of(dtype);
}

bool right_overflow(double got, double want, double overflow) {
  return std::isinf(got) && std::abs(want) >= overflow && std::signbit(got) == std::signbit(want);
}

double ratio_of(double error, double allowed) {
  if (error == 0.0) return 0.0;
  return allowed > 0.0 ? error / allowed : std::numeric_limits<double>::infinity();
}

void ErrorSums::add(std::span<const double> got, std::span<const double> want) {
  // Independent sums, so that no addition waits for the one before it.
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> errors{}, squares{}, sizes{}, size_squares{};
  std::size_t i = 0;
  for (; i + kLanes <= got.size(); i += kLanes) {
    const double *const g = got.data() + i, *const w = want.data() + i;
    double sum = 0.0;  // not finite if one of the values is not
    for (std::size_t l = 0; l < kLanes; ++l) sum += std::abs(g[l]) + std::abs(w[l]);
    if (!std::isfinite(sum)) {
      for (std::size_t l = 0; l < kLanes; ++l) add(g[l], w[l]);
      continue;
    }
    for (std::size_t l = 0; l < kLanes; ++l) {
      const double error = std::abs(g[l] - w[l]), size = std::abs(w[l]);
      errors[l] = error > errors[l] ? error : errors[l];
      sizes[l] = size > sizes[l] ? size : sizes[l];
      squares[l] += error * error;
      size_squares[l] += size * size;
    }
    count += kLanes;
  }
  for (std::size_t l = 0; l < kLanes; ++l) {
    max = std::max(max, errors[l]);
    reference_max = std::max(reference_max, sizes[l]);
    square_sum += squares[l];
    reference_square_sum += size_squares[l];
  }
  for (; i < got.size(); ++i) add(got[i], want[i]);
}

void ErrorSums::add(double got, double want) {
  if (!std::isfinite(want) || !std::isfinite(got)) {
    if (!same_non_finite(got, want) && !right_overflow(got, want, overflow)) ++wrong_non_finite;
    return;
  }
  const double error = std::abs(got - want);
  max = std::max(max, error);
  square_sum += error * error;
  reference_max = std::max(reference_max, std::abs(want));
  reference_square_sum += want * want;
  ++count;
}

void ErrorSums::add_integers(Dtype dtype, std::span<const double> got, std::span<const double> want) {
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i] != want[i] && got[i] != round_to(dtype, want[i])) ++wrong_non_finite;
  count += static_cast<std::int64_t>(got.size());
}

void ErrorSums::add(const ErrorSums& other) {
  max = std::max(max, other.max);
  reference_max = std::max(reference_max, other.reference_max);
  square_sum += other.square_sum;
  reference_square_sum += other.reference_square_sum;
  count += other.count;
  wrong_non_finite += other.wrong_non_finite;
}

double ErrorSums::rms() const {
  return count == 0 ? 0.0 : std::sqrt(square_sum / static_cast<double>(count));
}
double ErrorSums::reference_rms() const {
  return count == 0 ? 0.0 : std::sqrt(reference_square_sum / static_cast<double>(count));
}

LegalError greater(const LegalError& a, const LegalError& b) {
  return {std::max(a.max, b.max), std::max(a.rms, b.rms)};
}

double error_ratio(const Tolerance& tolerance, Dtype dtype, const ErrorSums& errors, const ErrorSums& legal,
                   const LegalError& at_least, double* allowed_max) {
  // Each norm has its own floor, scaled by that norm: if one element dominates, its last bits do too.
  const double least = tolerance.floor_eps * accumulation_epsilon(dtype);
  // Rounding the output to its type costs up to half a unit in the last place, even if the few modeled
  // elements happened to need less.
  const double last_place = 0.5 * epsilon_of(dtype) * errors.reference_max;
  // And a quarter of one in the mean, even if the modeled values happen to need no rounding.
  const double mean_place = 0.25 * epsilon_of(dtype) * errors.reference_rms();
  // Kernels that compute in f32 may flush or bound what is near its smallest number.
  const double underflow = accumulation_epsilon(dtype) > epsilon_of(Dtype::f64) ? 0x1p-100 : 0.0;
  *allowed_max = tolerance.factor * std::max({legal.max, at_least.max, last_place}) +
                 std::max(least * errors.reference_max, underflow);
  if (errors.wrong_non_finite > 0) return std::numeric_limits<double>::infinity();
  return std::max(
      ratio_of(errors.max, *allowed_max),
      ratio_of(errors.rms(), tolerance.factor * std::max({legal.rms(), at_least.rms, mean_place}) +
                                 std::max(least * errors.reference_rms(), underflow)));
}

std::vector<std::size_t> block_starts(const RowGroup& group, std::span<const std::int64_t> rows,
                                      std::int64_t block_rows) {
  const auto block_of = [&](std::size_t i) { return (rows[i] - group.first) / block_rows; };
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (i == 0 || block_of(i) != block_of(i - 1)) starts.push_back(i);
  starts.push_back(rows.size());
  if (starts.size() > 2 &&
      starts.back() - starts[starts.size() - 2] < static_cast<std::size_t>(block_rows + 1) / 2)
    starts.erase(starts.end() - 2);
  return starts;
}

OutputRows::OutputRows(const RowLayout& layout, const OutputLayout& output, std::span<const std::byte> bytes)
    : layout_(layout),
      output_(output),
      bytes_(bytes),
      contiguous_(output.element_offsets.back() == static_cast<std::int64_t>(row_size()) - 1) {}

double OutputRows::element(std::int64_t row, std::size_t e) const {
  double value = 0.0;
  const std::size_t width = size_of(output_.dtype);
  decode(output_.dtype, bytes_.subspan(static_cast<std::size_t>(place(row, e)) * width, width), {&value, 1});
  return value;
}

void OutputRows::decode_part(std::int64_t row, std::size_t first, std::span<double> out) const {
  const std::size_t width = size_of(output_.dtype);
  if (contiguous_)
    return decode(output_.dtype,
                  bytes_.subspan(static_cast<std::size_t>(place(row, first)) * width, out.size() * width),
                  out);
  std::array<std::byte, kPart * sizeof(double)> stored;
  for (std::size_t e = 0; e < out.size(); ++e)
    std::memcpy(stored.data() + e * width,
                bytes_.data() + static_cast<std::size_t>(place(row, first + e)) * width, width);
  decode(output_.dtype, std::span(stored).first(out.size() * width), out);
}

ErrorSums OutputRows::errors(std::int64_t row, std::span<const double> exact) const {
  ErrorSums sums;
  if (is_floating(output_.dtype)) sums.overflow = overflow_of(output_.dtype);
  std::array<double, kPart> part;
  for (std::size_t e = 0; e < row_size(); e += kPart) {
    const std::span<double> values = std::span(part).first(std::min(kPart, row_size() - e));
    decode_part(row, e, values);
    if (is_floating(output_.dtype))
      sums.add(values, exact.subspan(e, values.size()));
    else
      sums.add_integers(output_.dtype, values, exact.subspan(e, values.size()));
  }
  return sums;
}

void for_each_row(std::size_t rows, std::size_t elements, const std::function<void(std::size_t)>& of) {
  constexpr std::size_t kFew = std::size_t{1} << 16;
  if (elements >= kFew) return tbb::parallel_for(std::size_t{0}, rows, of);
  for (std::size_t i = 0; i < rows; ++i) of(i);
}

}  // namespace cultivar
