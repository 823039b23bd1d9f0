// The position of an oracle row in the output tensors. A row index enumerates the task's `rows` dimensions,
// outermost first; the elements of a row are, for each output tensor in turn, its other dimensions, outermost
// first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluators/task/task.hpp"

namespace cultivar {

struct OutputLayout {
  std::string name;
  int tensor = 0;  // index into Task::tensors
  Dtype dtype = Dtype::f32;
  std::vector<std::string> dimension_names;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t>
      row_strides;  // by `rows` dimension, in elements; 0 if the tensor lacks the dimension
  std::vector<std::int64_t> element_offsets;  // offsets of a row's elements from the row's base
  std::int64_t elements = 0;
};

class RowLayout {
 public:
  // Throws InputError if an output tensor lacks one of the `rows` dimensions, because its elements would
  // belong to several rows.
  RowLayout(const Task&, const Workload&);

  std::int64_t rows() const { return rows_; }
  std::int64_t row_elements() const { return row_elements_; }  // summed over all outputs
  std::int64_t output_elements() const;
  const std::vector<OutputLayout>& outputs() const { return outputs_; }
  const std::vector<std::int64_t>& row_shape() const { return row_shape_; }
  const std::vector<std::string>& row_names() const { return row_names_; }

  std::vector<std::int64_t> coordinates(std::int64_t row) const;
  std::int64_t base(const OutputLayout&, std::int64_t row) const;
  // For example "o[B=0, S_q=63, H=1, D=5]".
  std::string describe(const OutputLayout&, std::int64_t flat) const;

 private:
  std::int64_t rows_ = 1, row_elements_ = 0;
  std::vector<std::int64_t> row_shape_;
  std::vector<std::string> row_names_;
  std::vector<OutputLayout> outputs_;
};

}  // namespace cultivar
