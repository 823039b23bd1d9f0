// SPDX-License-Identifier: Apache-2.0
#include "evaluators/references/rows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cultivar {

OutputLayout RowLayout::layout_of(const Task& task, const TensorSpec& spec, const Workload& workload,
                                  std::size_t group_index) {
  RowGroup& group = groups_[group_index];
  OutputLayout layout;
  layout.name = spec.name;
  layout.group = group_index;
  layout.first_element = static_cast<std::size_t>(group.elements);
  layout.dtype = task.dtype(spec, workload);
  layout.dimension_names = spec.shape;
  layout.shape = task.shape(spec, workload);
  layout.row_strides.assign(group.names.size(), 0);
  layout.element_offsets = {0};
  layout.elements = 1;
  std::vector<std::int64_t> stride(spec.shape.size());
  for (std::size_t d = spec.shape.size(); d-- > 0;) {
    stride[d] = layout.elements;
    layout.elements *= layout.shape[d];
  }
  std::size_t found = 0;
  for (std::size_t d = 0; d < spec.shape.size(); ++d) {
    const auto row_index =
        static_cast<std::size_t>(std::ranges::find(group.names, spec.shape[d]) - group.names.begin());
    if (row_index < group.names.size()) {
      layout.row_strides[row_index] = stride[d];
      group.shape[row_index] = layout.shape[d];
      ++found;
      continue;
    }
    std::vector<std::int64_t> offsets;
    offsets.reserve(layout.element_offsets.size() * static_cast<std::size_t>(layout.shape[d]));
    for (const std::int64_t base_offset : layout.element_offsets)
      for (std::int64_t i = 0; i < layout.shape[d]; ++i) offsets.push_back(base_offset + i * stride[d]);
    layout.element_offsets = std::move(offsets);
  }
  if (found != group.names.size())
    throw InputError(fmt::format(
        "task {}: output tensor '{}' lacks one of its row dimensions [{}] (add it to the shape, or "
        "give the tensor `rows` of its own)",
        task.name, spec.name, fmt::join(group.names, ", ")));
  group.elements += static_cast<std::int64_t>(layout.element_offsets.size());
  return layout;
}

RowLayout::RowLayout(const Task& task, const Workload& workload) {
  for (const TensorSpec& spec : task.tensors) {
    if (spec.role != Role::output) continue;
    const std::vector<std::string>& names = spec.rows ? *spec.rows : task.rows;
    auto group = std::ranges::find(groups_, names, &RowGroup::names);
    if (group == groups_.end()) {
      groups_.push_back({names, std::vector<std::int64_t>(names.size()), spec.name});
      group = groups_.end() - 1;
    }
  }
  // The task's own rows come first.
  std::stable_partition(groups_.begin(), groups_.end(),
                        [&](const RowGroup& group) { return group.names == task.rows; });
  for (std::size_t t = 0; t < task.tensors.size(); ++t) {
    const TensorSpec& spec = task.tensors[t];
    if (spec.role != Role::output) continue;
    const auto group = std::ranges::find(groups_, spec.rows ? *spec.rows : task.rows, &RowGroup::names);
    outputs_.push_back(layout_of(task, spec, workload, static_cast<std::size_t>(group - groups_.begin())));
    outputs_.back().tensor = static_cast<int>(t);
  }
  number_rows();
}

RowLayout RowLayout::of_derived(const Task& task, const Workload& workload) {
  RowLayout layout;
  const std::vector<std::string>& names = task.derived->rows;
  layout.groups_.push_back({names, std::vector<std::int64_t>(names.size()), task.derived->inputs.front()});
  for (std::size_t t = 0; t < task.tensors.size(); ++t) {
    if (!task.is_derived(task.tensors[t].name)) continue;
    layout.outputs_.push_back(layout.layout_of(task, task.tensors[t], workload, 0));
    layout.outputs_.back().tensor = static_cast<int>(t);
  }
  layout.number_rows();
  return layout;
}

void RowLayout::number_rows() {
  for (RowGroup& group : groups_) {
    for (const std::int64_t extent : group.shape) group.rows *= extent;
    group.first = rows_;
    rows_ += group.rows;
  }
}

const RowGroup& RowLayout::group_of(std::int64_t row) const {
  std::size_t g = groups_.size() - 1;
  while (g > 0 && row < groups_[g].first) --g;
  return groups_[g];
}

RowSpan RowLayout::span_of(const OutputLayout& output, std::span<const std::int64_t> rows) const {
  RowSpan span;
  for (std::size_t g = 0; g <= output.group; ++g) {
    const RowGroup& group = groups_[g];
    span.value += (span.last - span.first) * static_cast<std::size_t>(g == 0 ? 0 : groups_[g - 1].elements);
    span.first = span.last;
    span.last =
        static_cast<std::size_t>(std::lower_bound(rows.begin() + static_cast<std::ptrdiff_t>(span.first),
                                                  rows.end(), group.first + group.rows) -
                                 rows.begin());
  }
  return span;
}

std::size_t RowLayout::values_of(std::span<const std::int64_t> rows) const {
  std::size_t values = 0;
  for (const std::int64_t row : rows) values += static_cast<std::size_t>(group_of(row).elements);
  return values;
}

std::vector<std::int64_t> RowLayout::coordinates(std::int64_t row) const {
  const RowGroup& group = group_of(row);
  row -= group.first;
  std::vector<std::int64_t> at(group.shape.size());
  for (std::size_t d = at.size(); d-- > 0;) {
    at[d] = row % group.shape[d];
    row /= group.shape[d];
  }
  return at;
}

std::int64_t RowLayout::base(const OutputLayout& output, std::int64_t row) const {
  const RowGroup& group = groups_[output.group];
  row -= group.first;
  std::int64_t flat = 0;
  for (std::size_t d = group.shape.size(); d-- > 0;) {
    flat += row % group.shape[d] * output.row_strides[d];
    row /= group.shape[d];
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
