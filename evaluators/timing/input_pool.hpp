// New inputs for every timed run at almost no cost. An input with independently drawn elements is a window of
// a longer secret stretch. Each run gets a different window, never used before and at an arbitrary alignment,
// so that no output of an earlier run, nor any row of one, is correct again. Inputs with other fills are
// drawn anew for each run.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "evaluators/check/oracle.hpp"
#include "evaluators/targets/target.hpp"
#include "evaluators/timing/stretches.hpp"

namespace cultivar {

class InputPool {
 public:
  // Keeps a reference to the task. Pools with the same `stretches` share its memory.
  InputPool(const Task&, const Workload&, std::uint64_t seed, std::shared_ptr<Stretches> stretches = nullptr);

  void next();  // creates the inputs of the next run and updates the views below
  InputView view() const { return {values_, stored_}; }
  const RunInputs& inputs() const { return inputs_; }

 private:
  struct Input {
    const TensorSpec* spec = nullptr;
    Dtype dtype = Dtype::f32;
    std::vector<std::int64_t> shape;
    std::int64_t elements = 0, innermost = 1, slack = 0;
    bool windowed = false;
    std::shared_ptr<const Stretch> stretch;  // source of the windows
    std::set<std::int64_t> used;             // used offsets modulo the innermost extent
    std::vector<std::byte> bytes;            // for inputs that are drawn anew
    std::vector<double> decoded;
  };
  std::int64_t new_offset(Input&);

  std::uint64_t seed_;
  std::uint64_t runs_ = 0;
  std::mt19937_64 stream_;
  std::shared_ptr<Stretches> stretches_;
  std::vector<Input> parts_;
  RunInputs inputs_;
  std::vector<const double*> values_;
  std::vector<const std::byte*> stored_;
};

}  // namespace cultivar
