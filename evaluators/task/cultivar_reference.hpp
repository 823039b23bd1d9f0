// The header that a task's reference.cpp includes. reference.cpp defines, with C linkage,
//   extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out);
// and, if the tolerance is to be derived from the permitted roundings,
//   extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out);
// and one `control_<name>` with the same signature for each control in task.yaml; and `derive_row`, if it has
// derived inputs.
// `row` enumerates the task's `rows` dimensions (outermost first). `out` holds the row's elements of every
// output tensor in the order of task.yaml: for each, its dimensions that are not among `rows`, outermost
// first. If outputs have `rows` of their own, the same functions are called for their rows as well:
// args.is_row_of("dw") says whether `row` is one of dw's and `out` holds only that. All of them are called
// from many threads at once and must not keep state.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

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

struct ReferenceNumber {
  const char* name;  // a dimension, a parameter or a `let` name
  double value;
};

struct ReferenceArgs {
  const ReferenceTensor* tensors;  // the inputs, in the order of task.yaml
  int tensor_count;
  const ReferenceNumber* numbers;
  int number_count;
  double (*round)(double);  // rounds to the workload's dtype
  const char* output = "";  // the first of the outputs to which the row belongs

  bool is_row_of(const char* name) const { return std::strcmp(output, name) == 0; }
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
    const ReferenceTensor* const found = find(name);
    return found == nullptr ? nullptr : found->values;
  }
  double number(const char* name) const {
    for (int i = 0; i < number_count; ++i)
      if (std::strcmp(numbers[i].name, name) == 0) return numbers[i].value;
    return std::nan("");
  }
  std::int64_t integer(const char* name) const { return static_cast<std::int64_t>(number(name)); }
};
