// SPDX-License-Identifier: Apache-2.0
// The position of an oracle row in the output tensors. Outputs with the same row dimensions form a group; a
// group's rows enumerate those dimensions, outermost first, and the rows of all groups follow each other: the
// task's own, then those of outputs with rows of their own. The elements of a row are, for each output of its
// group in turn, the output's other dimensions, outermost first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evaluators/task/task.hpp"

namespace cultivar {

struct OutputLayout {
  std::string name;
  int tensor = 0;                 // index into Task::tensors
  std::size_t group = 0;          // index into RowLayout::groups
  std::size_t first_element = 0;  // of this output in a row of its group
  Dtype dtype = Dtype::f32;
  std::vector<std::string> dimension_names;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> row_strides;      // by row dimension of the group, in elements
  std::vector<std::int64_t> element_offsets;  // offsets of a row's elements from the row's base
  std::int64_t elements = 0;
};

struct RowGroup {
  std::vector<std::string> names;    // of the row dimensions
  std::vector<std::int64_t> shape;   // their extents
  std::string output;                // the first output of the group
  std::int64_t first = 0, rows = 1;  // indices of its rows
  std::int64_t elements = 0;         // of a row, summed over the outputs of the group
};

// Some rows of a list that belong to one group: list[first] to list[last], and where their values begin.
struct RowSpan {
  std::size_t first = 0, last = 0, value = 0;
};

class RowLayout {
 public:
  // Throws InputError if an output tensor lacks one of its row dimensions, because its elements would belong
  // to several rows.
  RowLayout(const Task&, const Workload&);
  // The task's derived inputs as the rows of derive_row lay them out, in place of the outputs.
  static RowLayout of_derived(const Task&, const Workload&);

  std::int64_t rows() const { return rows_; }
  const std::vector<OutputLayout>& outputs() const { return outputs_; }
  const std::vector<RowGroup>& groups() const { return groups_; }
  const RowGroup& group(const OutputLayout& output) const { return groups_[output.group]; }

  const RowGroup& group_of(std::int64_t row) const;
  // Where the rows of `output` are in a list of rows in increasing order, and in the list of their values,
  // in which the elements of each row follow those of the row before it.
  RowSpan span_of(const OutputLayout& output, std::span<const std::int64_t> rows) const;
  std::size_t values_of(std::span<const std::int64_t> rows) const;  // the number of values of these rows

  std::vector<std::int64_t> coordinates(std::int64_t row) const;
  std::int64_t base(const OutputLayout&, std::int64_t row) const;  // a row of the output's group
  // For example "o[B=0, S_q=63, H=1, D=5]".
  std::string describe(const OutputLayout&, std::int64_t flat) const;

 private:
  RowLayout() = default;
  void number_rows();
  OutputLayout layout_of(const Task&, const TensorSpec&, const Workload&, std::size_t group);

  std::int64_t rows_ = 0;
  std::vector<RowGroup> groups_;
  std::vector<OutputLayout> outputs_;
};

}  // namespace cultivar
