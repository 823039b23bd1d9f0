#include "evaluators/check/rows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cultivar {

RowLayout::RowLayout(const Task& task, const Workload& workload) : row_names_(task.rows) {
  const auto row_dimension = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(row_names_.begin(), row_names_.end(), name) -
                                    row_names_.begin());
  };
  row_shape_.assign(row_names_.size(), 0);
  for (std::size_t t = 0; t < task.tensors.size(); ++t) {
    const TensorSpec& spec = task.tensors[t];
    if (spec.role != Role::output) continue;
    OutputLayout layout;
    layout.name = spec.name;
    layout.tensor = static_cast<int>(t);
    layout.dtype = task.dtype(spec, workload);
    layout.dimension_names = spec.shape;
    layout.shape = task.shape(spec, workload);
    layout.row_strides.assign(row_names_.size(), 0);
    layout.element_offsets = {0};
    layout.elements = 1;
    std::vector<std::int64_t> stride(spec.shape.size());
    for (std::size_t d = spec.shape.size(); d-- > 0;) {
      stride[d] = layout.elements;
      layout.elements *= layout.shape[d];
    }
    std::size_t found = 0;
    for (std::size_t d = 0; d < spec.shape.size(); ++d) {
      const std::size_t row_index = row_dimension(spec.shape[d]);
      if (row_index < row_names_.size()) {
        layout.row_strides[row_index] = stride[d];
        row_shape_[row_index] = layout.shape[d];
        ++found;
        continue;
      }
      std::vector<std::int64_t> offsets;
      offsets.reserve(layout.element_offsets.size() * static_cast<std::size_t>(layout.shape[d]));
      for (const std::int64_t base_offset : layout.element_offsets)
        for (std::int64_t i = 0; i < layout.shape[d]; ++i) offsets.push_back(base_offset + i * stride[d]);
      layout.element_offsets = std::move(offsets);
    }
    if (found != row_names_.size())
      throw InputError(
          fmt::format("task {}: output tensor '{}' lacks one of the `rows` dimensions [{}] (every output "
                      "must have all of them)",
                      task.name, spec.name, fmt::join(row_names_, ", ")));
    row_elements_ += static_cast<std::int64_t>(layout.element_offsets.size());
    outputs_.push_back(std::move(layout));
  }
  for (const std::int64_t extent : row_shape_) rows_ *= extent;
}

std::int64_t RowLayout::output_elements() const {
  std::int64_t total = 0;
  for (const OutputLayout& o : outputs_) total += o.elements;
  return total;
}

std::vector<std::int64_t> RowLayout::coordinates(std::int64_t row) const {
  std::vector<std::int64_t> at(row_shape_.size());
  for (std::size_t d = row_shape_.size(); d-- > 0;) {
    at[d] = row % row_shape_[d];
    row /= row_shape_[d];
  }
  return at;
}

std::int64_t RowLayout::base(const OutputLayout& output, std::int64_t row) const {
  std::int64_t flat = 0;
  for (std::size_t d = row_shape_.size(); d-- > 0;) {
    flat += row % row_shape_[d] * output.row_strides[d];
    row /= row_shape_[d];
  }
  return flat;
}

std::string RowLayout::describe(const OutputLayout& output, std::int64_t flat) const {
  std::vector<std::string> parts(output.shape.size());
  for (std::size_t d = output.shape.size(); d-- > 0;) {
    parts[d] = fmt::format("{}={}", output.dimension_names[d], flat % output.shape[d]);
    flat /= output.shape[d];
  }
  return fmt::format("{}[{}]", output.name, fmt::join(parts, ", "));
}

}  // namespace cultivar
