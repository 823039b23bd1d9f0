// SPDX-License-Identifier: Apache-2.0
// New inputs for every timed run. They share no elements with those of another run (drawn_values.hpp). On a
// device that keeps stretches (long secret blocks of input data) in its own memory, where copying inputs
// would take longer than the kernels, an input with independently drawn elements is a window of a stretch
// instead: never used before and at an arbitrary alignment, so that no output of an earlier run, nor any row
// of one, is correct again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "evaluators/check/oracle.hpp"
#include "evaluators/devices/device.hpp"
#include "evaluators/timing/drawn_values.hpp"
#include "evaluators/timing/stretches.hpp"

namespace cultivar {

enum class InputSource { drawn, windows };
InputSource input_source_of(const Device&);

// Memory for drawn inputs, which pools may share: the inputs of the pool that drew last are in it.
struct InputMemory {
  struct Tensor {
    std::vector<std::byte, HugePages<std::byte>> bytes;
    std::vector<double, HugePages<double>> values;
  };
  std::vector<Tensor> tensors;
  std::uint64_t draws = 0;
};

class InputPool {
 public:
  // Windows. Keeps a reference to the task. Pools with the same `stretches` share its memory. `kept`: the
  // derived inputs of the task and those that they come from, the same in every run (kept_inputs of
  // timing_stock.hpp).
  InputPool(const Task&, const Workload&, std::uint64_t seed, std::shared_ptr<Stretches> stretches = nullptr,
            std::shared_ptr<const Inputs> kept = nullptr);
  // Drawn inputs, in this memory (not null).
  InputPool(const Task&, const Workload&, std::uint64_t seed, std::shared_ptr<InputMemory>,
            std::shared_ptr<const Inputs> kept = nullptr);

  void next();  // creates the inputs of the next run and updates the views below
  // Both throw std::logic_error if another pool has drawn into the shared memory since.
  InputView view() const;
  const RunInputs& inputs() const;

 private:
  struct Input {
    const TensorSpec* spec = nullptr;
    Dtype dtype = Dtype::f32;
    std::vector<std::int64_t> shape;
    std::int64_t elements = 0, innermost = 1, slack = 0;
    bool windowed = false, kept = false;
    std::shared_ptr<const Stretch> stretch;  // source of the windows
    std::set<std::int64_t> used;             // used offsets modulo the innermost extent
    std::optional<DrawnValues> drawn;        // if not windowed
  };
  void describe_inputs(const Task&, const Workload&);
  std::int64_t new_offset(Input&);
  void check_memory() const;

  std::uint64_t seed_;
  std::uint64_t runs_ = 0, draw_ = 0;
  std::mt19937_64 stream_;
  std::shared_ptr<Stretches> stretches_;  // null: nothing is windowed
  std::shared_ptr<InputMemory> memory_;
  std::shared_ptr<const Inputs> kept_;  // null if the task has no derived inputs
  std::vector<Input> parts_;
  RunInputs inputs_;
  std::vector<const double*> values_;
  std::vector<const std::byte*> stored_;
};

}  // namespace cultivar
