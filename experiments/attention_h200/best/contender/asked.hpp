// Converts a workload of cultivar_contender.h to a workload of this task.
#pragma once

#include <cmath>

#include "../attention_forward.hpp"

#include "../verify/data.hpp"
#include "cultivar_contender.h"

// Throws std::invalid_argument for a shape that this kernel does not support, std::runtime_error for an invalid workload.
inline verify_data::Workload asked_workload(const cultivar_contender_workload& asked) {
  if (std::strcmp(asked.dtype, "bf16") != 0)
    throw std::invalid_argument("attention_forward: built for bf16, but the dtype is " + std::string(asked.dtype));
  const auto given = [&](const char* name) -> const double* {
    for (std::uint32_t v = 0; v < asked.value_count; ++v)
      if (std::strcmp(asked.values[v].name, name) == 0) return &asked.values[v].value;
    return nullptr;
  };
  const verify_data::Workload workload{asked.name, verify_data::numbers_of(given)};
  const auto wrong = [](const std::string& what) { throw std::runtime_error("attention_forward: " + what); };
  if (asked.tensor_count != verify_data::tensors.size())
    wrong(std::to_string(asked.tensor_count) + " tensors, but the task has " + std::to_string(verify_data::tensors.size()));
  for (std::size_t t = 0; t < verify_data::tensors.size(); ++t) {
    const verify_data::Tensor& expected = verify_data::tensors[t];
    const cultivar_contender_tensor& tensor = asked.tensors[t];
    const std::string name = expected.name;
    if (name != tensor.name || expected.output != (tensor.is_output != 0))
      wrong("tensor " + std::to_string(t) + " must be the " + (expected.output ? "output " : "input ") + name);
    if (cultivar::name_of(expected.dtype) != tensor.dtype)
      wrong(name + " has the dtype " + std::string(cultivar::name_of(expected.dtype)) + ", not " + tensor.dtype);
    if (std::size_t(tensor.rank) != expected.shape.size())
      wrong(name + " has " + std::to_string(expected.shape.size()) + " dimensions, not " + std::to_string(tensor.rank));
    std::int64_t stride = 1;
    for (std::size_t d = expected.shape.size(); d-- > 0; stride *= tensor.extents[d]) {
      const double extent = workload.number(expected.shape[d]);
      if (!(extent >= 1) || extent != std::floor(extent))
        throw std::invalid_argument(std::string("attention_forward: ") + expected.shape[d] + " is " +
                                    (extent == 0 ? "0" : std::to_string(extent)) + ", but must be a whole number from 1");
      if (double(tensor.extents[d]) != extent)
        wrong(name + " has " + std::to_string(tensor.extents[d]) + " elements along " + expected.shape[d] + ", but must have " +
              std::to_string(std::int64_t(extent)));
      if (tensor.extents[d] > 1 && tensor.strides[d] != stride) wrong(name + " is not contiguous");
    }
  }
  return workload;
}
