// SPDX-License-Identifier: Apache-2.0
// New inputs for every timed run. They share no elements with those of another run. On a
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
#include <span>
#include <string>
#include <vector>

#include "evaluators/check/oracle.hpp"
#include "evaluators/devices/device.hpp"
#include "evaluators/system/huge_pages.hpp"
#include "evaluators/task/fill.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// Stretches: long secret sequences of independently drawn elements. The inputs of timed runs are windows of
// them. They are drawn once per evaluation and shared by its workloads, because drawing hundreds of megabytes
// for each would take longer than the kernels. Memory is reused from one evaluation to the next; contents are
// not.
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

// New values for the inputs of a run at about the speed of memory. A normal value is c * A[i] + s * B[j],
// where A and B are secret tables of normal values and c * c + s * s = 1; a uniform value is the fractional
// part of A[i] + B[j]. The places in the tables and the angle are drawn anew for every block of elements of
// every run. So no value is one of an earlier run, and no part of an input is a multiple of or a constant
// above another. (A window of a longer sequence costs less, but a kernel that remembers can find where it
// lies; and a window times a secret factor, or plus a constant, leaves softmax a factor or nothing to
// compute.)
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
