// SPDX-License-Identifier: Apache-2.0
// The header that a task's reference.cpp includes. reference.cpp defines, with C linkage,
//   extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out);
// and, if the tolerance is to be derived from the permitted roundings,
//   extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out);
// and one `control_<name>` with the same signature for each control in task.yaml; and `derive_row`, if it has
// derived inputs; and, if an output of whole numbers may have several right answers, `is_right_index`
// (below). `row` enumerates the task's `rows` dimensions (outermost first). `out` holds the row's elements of
// every output tensor in the order of task.yaml: for each, its dimensions that are not among `rows`,
// outermost first. If outputs have `rows` of their own, the same functions are called for their rows as well:
// args.is_row_of("dw") says whether `row` is one of dw's and `out` holds only that. All of them are called
// from many threads at once and must not keep state.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

enum class ReferenceType : int { other, f32, f16, bf16 };

struct ReferenceTensor {
  const char* name;
  const double* values;  // the exact values of the low-precision elements, contiguous
  const std::int64_t* shape;
  int rank;
  const void* stored =
      nullptr;  // the elements as the kernel receives them, in the format that read() decodes
  ReferenceType stored_as = ReferenceType::other;

  // out[i] = values[first + i] for `count` elements. Reads the smaller stored elements if there are any,
  // because streaming through large tensors is bound by memory bandwidth.
  void read(std::int64_t first, std::int64_t count, double* out) const {
    if (stored_as == ReferenceType::bf16) {
      const std::uint16_t* const from = static_cast<const std::uint16_t*>(stored) + first;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint32_t bits = static_cast<std::uint32_t>(from[i]) << 16;
        float value;
        std::memcpy(&value, &bits, sizeof value);
        out[i] = value;
      }
    } else if (stored_as == ReferenceType::f32) {
      const float* const from = static_cast<const float*>(stored) + first;
      for (std::int64_t i = 0; i < count; ++i) out[i] = from[i];
#ifdef __FLT16_MANT_DIG__
    } else if (stored_as == ReferenceType::f16) {
      const _Float16* const from = static_cast<const _Float16*>(stored) + first;
      for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<double>(from[i]);
#endif
    } else {
      std::memcpy(out, values + first, static_cast<std::size_t>(count) * sizeof(double));
    }
  }

  // Prefetches elements that will be read soon. Without it, rows that lie far apart are bound by memory
  // latency.
  void expect(std::int64_t first, std::int64_t count) const {
    const bool small = stored_as != ReferenceType::other;
    const std::int64_t width = !small ? 8 : stored_as == ReferenceType::f32 ? 4 : 2;
    const char* const from = static_cast<const char*>(small ? stored : values) + first * width;
    for (std::int64_t byte = 0; byte < count * width; byte += 64) __builtin_prefetch(from + byte);
  }
};

// exp(x) to about one unit in the last place, without calls and branches, so that the compiler computes
// several at a time. Results below 2^-1021 are 0.
inline double reference_exp(double x) {
  constexpr double kLowest = -707.0, kHighest = 709.782712893384;
  const double bounded = x < kLowest ? kLowest : x > kHighest ? kHighest : x;
  // x = n ln 2 + r; the last bits of `shifted` are n.
  constexpr double kShift = 0x1.8p52;
  const double shifted = bounded * 0x1.71547652b82fep+0 + kShift, n = shifted - kShift;
  const double r = (bounded - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  std::uint64_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1022) << 52;  // 2^(n - 1)
  double half;
  std::memcpy(&half, &bits, sizeof half);
  const double result = (p + p) * half;
  return x < kLowest ? 0.0 : x > kHighest ? HUGE_VAL : result;
}

// In place. A loop of its own, because the compiler computes several at a time only in simple loops.
inline void reference_exp_all(double* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = reference_exp(values[i]);
}

// Several sums and maxima at a time, which a plain loop must not have: the order of additions matters.
inline double reference_sum(const double* values, std::int64_t count) {
  double sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int l = 0; l < 8; ++l) sums[l] += values[i + l];
  for (; i < count; ++i) sums[0] += values[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}
inline double reference_max(const double* values, std::int64_t count) {
  double tops[8];
  for (double& top : tops) top = -HUGE_VAL;
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int l = 0; l < 8; ++l) tops[l] = values[i + l] > tops[l] ? values[i + l] : tops[l];
  for (; i < count; ++i) tops[0] = values[i] > tops[0] ? values[i] : tops[0];
  for (int l = 1; l < 8; ++l) tops[0] = tops[l] > tops[0] ? tops[l] : tops[0];
  return tops[0];
}

// sums[d] += the sum over `count` (at most 16) products factors[u] * lines[u][d], each exact in f32, as
// tensor cores add them: the greatest of them and of the sum before gives a place of 26 bits, at which all
// are cut off towards zero, and so is the result at 24 bits. Where all have one sign each product loses an
// eighth of a unit in the last place of the sum, which adds up: 7e-4 of a sum of 100,000 of one size.
inline void reference_tensor_core_add(const float* factors, const double* const* lines, int count,
                                      std::int64_t width, float* sums) {
  constexpr int kLanes = 16, kMost = 16, kPlaces = 25, kLeast = 127 - 100, kGreatest = 127 + 119;
  const auto power = [](int biased) {
    const std::int32_t bits = biased << 23;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  };
  for (std::int64_t first = 0; first < width; first += kLanes) {
    const int lanes = width - first < kLanes ? static_cast<int>(width - first) : kLanes;
    float products[kMost][kLanes] = {}, before[kLanes] = {}, unit[kLanes];
    std::int32_t top[kLanes],
        total[kLanes];  // top: of the greatest size, its bits, of which NaN has the most
    for (int l = 0; l < lanes; ++l) before[l] = sums[first + l];
    for (int u = 0; u < count; ++u)
      for (int l = 0; l < lanes; ++l) products[u][l] = factors[u] * static_cast<float>(lines[u][first + l]);
    const auto raise = [&top](const float(&values)[kLanes]) {
      for (int l = 0; l < kLanes; ++l) {
        std::int32_t bits;
        std::memcpy(&bits, &values[l], sizeof bits);
        bits &= 0x7fffffff;
        top[l] = bits > top[l] ? bits : top[l];
      }
    };
    for (std::int32_t& bits : top) bits = kLeast << 23;
    raise(before);
    for (int u = 0; u < count; ++u) raise(products[u]);
    int greatest = 0;
    for (int l = 0; l < kLanes; ++l) {
      const int biased = top[l] >> 23;
      greatest = biased > greatest ? biased : greatest;
      unit[l] = power(biased - kPlaces);
    }
    if (greatest > kGreatest) {  // too near infinity for this arithmetic
      for (int u = 0; u < count; ++u)
        for (int l = 0; l < lanes; ++l) sums[first + l] += products[u][l];
      continue;
    }
    for (int l = 0; l < kLanes; ++l) total[l] = static_cast<std::int32_t>(before[l] * (1.0f / unit[l]));
    for (int u = 0; u < count; ++u)
      for (int l = 0; l < kLanes; ++l)
        total[l] += static_cast<std::int32_t>(products[u][l] * (1.0f / unit[l]));
    for (int l = 0; l < lanes; ++l) {
      const double sum = total[l];
      std::uint64_t bits;
      std::memcpy(&bits, &sum, sizeof bits);
      bits &= ~((std::uint64_t{1} << 29) - 1);
      double cut;
      std::memcpy(&cut, &bits, sizeof cut);
      sums[first + l] = static_cast<float>(cut) * unit[l];
    }
  }
}

struct ReferenceNumber {
  const char* name;  // a dimension, a parameter or a `let` name
  double value;
};

struct ReferenceArgs {
  const ReferenceTensor* tensors;  // the inputs, in the order of task.yaml
  int tensor_count;
  const ReferenceNumber* numbers;
  int number_count;
  double (*round)(double);                         // rounds to the workload's dtype
  const char* output = "";                         // the first of the outputs to which the row belongs
  ReferenceType rounds_to = ReferenceType::other;  // that dtype

  bool is_row_of(const char* name) const { return std::strcmp(output, name) == 0; }
  // The same for many values, several at a time.
  void round_all(double* values, std::int64_t count) const {
    switch (rounds_to) {
      case ReferenceType::f32:
        for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(values[i]);
        break;
      case ReferenceType::f16:
        return round_to_bits<42, -14>(values, count, 65504.0);
      case ReferenceType::bf16:
        return round_to_bits<45, -126>(values, count, 0x1.fep127);
      case ReferenceType::other:
        for (std::int64_t i = 0; i < count; ++i) values[i] = round(values[i]);
    }
  }
  // Without `dropped` of the 52 bits of fraction, ties to even; below 2^lowest with the last place of
  // 2^lowest; infinite above `most`.
  template <int dropped, int lowest>
  static void round_to_bits(double* values, std::int64_t count, double most) {
    const double shift = std::ldexp(1.5, lowest + dropped), least = std::ldexp(1.0, lowest);
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = values[i], size = std::fabs(value);
      std::uint64_t bits;
      std::memcpy(&bits, &size, sizeof bits);
      bits += (std::uint64_t{1} << (dropped - 1)) - 1 + (bits >> dropped & 1u);
      bits &= ~((std::uint64_t{1} << dropped) - 1);
      double normal;
      std::memcpy(&normal, &bits, sizeof normal);
      const double rounded = size < least ? (size + shift) - shift : normal;
      const double bounded = rounded > most ? HUGE_VAL : rounded;
      values[i] = size <= 0x1.fffffffffffffp+1023 ? std::copysign(bounded, value) : value;
    }
  }
  // Rounds to TF32 as tensor cores do: 10 bits of fraction, ties to even.
  static float round_tf32(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
    std::memcpy(&value, &bits, sizeof bits);
    return value;
  }

  const ReferenceTensor* find(const char* name) const {
    for (int i = 0; i < tensor_count; ++i)
      if (std::strcmp(tensors[i].name, name) == 0) return &tensors[i];
    return nullptr;
  }
  const double* tensor(const char* name) const {
    if (const ReferenceTensor* const found = find(name)) return found->values;
    std::string known;
    for (int i = 0; i < tensor_count; ++i) known += (i == 0 ? "" : ", ") + std::string(tensors[i].name);
    throw std::invalid_argument("there is no input '" + std::string(name) + "'; the task has " +
                                (known.empty() ? "none" : known));
  }
  double number(const char* name) const {
    for (int i = 0; i < number_count; ++i)
      if (std::strcmp(numbers[i].name, name) == 0) return numbers[i].value;
    std::string known;
    for (int i = 0; i < number_count; ++i) known += (i == 0 ? "" : ", ") + std::string(numbers[i].name);
    throw std::invalid_argument("there is no dimension, parameter or let '" + std::string(name) +
                                "'; the task has " + (known.empty() ? "none" : known));
  }
  std::int64_t integer(const char* name) const { return static_cast<std::int64_t>(number(name)); }
};

// A kernel's answer in one element of an output of whole numbers, where it is not the oracle's. reference.cpp
// may say which such answers are right as well, because two candidates are equal or differ by less than
// roundings:
//   extern "C" bool is_right_index(const ReferenceArgs& args, const IndexAnswer& answer);
// Without it, every whole number must be the oracle's.
struct IndexAnswer {
  const char* output;              // the name of the output
  std::int64_t row = 0;            // as reference_row has it
  std::int64_t element = 0;        // of this output in this row
  std::int64_t elements = 1;       // of this output in a row
  const double* given = nullptr;   // the kernel's values of all of them
  const double* wanted = nullptr;  // the oracle's
  double unit = 0.0;               // error that the task's tolerance permits for a value of 1

  double value() const { return given[element]; }
  double expected() const { return wanted[element]; }
  // The error that the tolerance permits for values of this size: a near-tie.
  double permitted(double size) const { return unit * std::fabs(size); }
  // For indices into `count` scores: the kernel's index is one of them, no other element of the row has it,
  // and its score differs from that of the oracle's index by at most `apart`.
  bool ties(const double* scores, std::int64_t count, double apart = 0.0) const {
    if (!(value() >= 0.0 && value() < static_cast<double>(count))) return false;
    for (std::int64_t e = 0; e < elements; ++e)
      if (e != element && given[e] == value()) return false;
    const double got = scores[static_cast<std::int64_t>(value())];
    const double best = scores[static_cast<std::int64_t>(expected())];
    return got == best || std::fabs(got - best) <= apart;
  }
};
