// SPDX-License-Identifier: Apache-2.0
// New values for the inputs of a run at about the speed of memory. A normal value is c * A[i] + s * B[j],
// where A and B are secret tables of normal values and c * c + s * s = 1; a uniform value is the fractional
// part of A[i] + B[j]. The places in the tables and the angle are drawn anew for every block of elements of
// every run. So no value is one of an earlier run, and no part of an input is a multiple of or a constant
// above another. (A window of a longer sequence costs less, but a kernel that remembers can find where it
// lies; and a window times a secret factor, or plus a constant, leaves softmax a factor or nothing to
// compute.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evaluators/task/fill.hpp"

namespace cultivar {

class DrawnValues {
 public:
  DrawnValues(const Fill&, std::uint64_t seed);

  // Writes out.size() / size_of(dtype) elements of a tensor of this shape, and their exact values. Equal
  // seeds give equal elements, whatever the number of threads. Other fills than normal and uniform, and small
  // tensors, are filled by fill_tensor.
  void draw(std::uint64_t seed, std::span<const std::int64_t> shape, Dtype, std::span<std::byte> out,
            std::span<double> values) const;

 private:
  void block(std::uint64_t seed, std::uint64_t number, std::span<float> out) const;

  Fill fill_;
  std::vector<float> tables_;  // both, one after the other
};

}  // namespace cultivar
