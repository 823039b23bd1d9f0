// SPDX-License-Identifier: Apache-2.0
// Which points are not worth a proposal, by what was observed.
#pragma once

#include "operators/tune/known_kernels.hpp"
#include "operators/tune/refusals.hpp"

namespace cultivar {

class Lessons {
 public:
  explicit Lessons(const Space& space) : kernels_(space), refusals_(space) {}

  // See KnownKernels::add.
  void add(const Point& point, bool worked, const std::optional<Point>& twin) {
    kernels_.add(point, worked, twin);
    refusals_.add(point, worked);
  }
  // Whether the point presumably fails, or gives the kernel of an observed one.
  bool avoids(const Point& point) const { return kernels_.contains(point) || refusals_.expects(point); }
  const KnownKernels& kernels() const { return kernels_; }

 private:
  KnownKernels kernels_;
  Refusals refusals_;
};

}  // namespace cultivar
