// What a task's reference.cpp includes. It defines, with C linkage,
//   extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out);
// and, to have its tolerance derived from the legal roundings,
//   extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out);
// and one `control_<name>` of the same shape for each control in task.yaml.
// `row` walks the task's `rows` dimensions (outermost first). `out` holds the row's elements of every output
// tensor in the order of task.yaml: for each, its dimensions that are not among `rows`, outermost first.
// All are called from many threads at once and must not keep state.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

struct ReferenceTensor {
  const char* name;
  const double* values;  // the exact values of the low-precision elements, contiguous
  const std::int64_t* shape;
  int rank;
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

  const double* tensor(const char* name) const {
    for (int i = 0; i < tensor_count; ++i)
      if (std::strcmp(tensors[i].name, name) == 0) return tensors[i].values;
    return nullptr;
  }
  double number(const char* name) const {
    for (int i = 0; i < number_count; ++i)
      if (std::strcmp(numbers[i].name, name) == 0) return numbers[i].value;
    return std::nan("");
  }
  std::int64_t integer(const char* name) const { return static_cast<std::int64_t>(number(name)); }
};
