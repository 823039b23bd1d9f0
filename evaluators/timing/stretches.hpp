// SPDX-License-Identifier: Apache-2.0
// Stretches: long secret sequences of independently drawn elements. The inputs of timed runs are windows of
// them. They are drawn once per evaluation and shared by its workloads, because drawing hundreds of megabytes
// for each would take longer than the kernels. Memory is reused from one evaluation to the next; contents are
// not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/system/huge_pages.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

struct Stretch {
  std::uint64_t id = 0;  // identifies these contents: random, never 0
  Dtype dtype = Dtype::f32;
  std::vector<std::byte, HugePages<std::byte>> bytes;
  std::vector<double, HugePages<double>> values;  // the same, decoded
  std::int64_t elements() const { return static_cast<std::int64_t>(values.size()); }
};

class Stretches {  // not thread-safe
 public:
  explicit Stretches(std::uint64_t seed = 0) : seed_(seed) {}

  // Stretches drawn from now on use this seed; stretches still in use do not change.
  void renew(std::uint64_t seed);
  // At least `elements` elements for this tensor; returns the same stretch as long as it is long enough.
  std::shared_ptr<const Stretch> get(const TensorSpec&, Dtype, std::int64_t elements);
  // A new stretch with new contents; get() returns it from now on.
  std::shared_ptr<const Stretch> another(const TensorSpec&, Dtype, std::int64_t elements);

 private:
  struct Kept {
    std::string tensor;
    Fill fill;
    std::shared_ptr<Stretch> stretch;
    std::uint64_t round = 0;  // number of draws from this seed
    bool fresh = false;       // drawn from this seed
  };
  Kept& find(const TensorSpec&, Dtype);
  void draw(Kept&, std::int64_t elements);

  std::uint64_t seed_;
  std::vector<Kept> kept_;
};

}  // namespace cultivar
