// Fresh inputs for every timed run at no price. An input whose elements are drawn independently is a window
// of a longer secret stretch; each run gets another one, never seen before and aligned to nothing, so that no
// output of an earlier run, nor any row of one, is right again. Other fills are drawn anew for each run.
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
  // Keeps a reference to the task. Pools that share `stretches` share its memory.
  InputPool(const Task&, const Workload&, std::uint64_t seed, std::shared_ptr<Stretches> stretches = nullptr);

  void next();  // makes the inputs of the next run; the views below change with it
  InputView view() const { return {values_, stored_}; }
  const RunInputs& inputs() const { return inputs_; }

 private:
  struct Input {
    const TensorSpec* spec = nullptr;
    Dtype dtype = Dtype::f32;
    std::vector<std::int64_t> shape;
    std::int64_t elements = 0, innermost = 1, slack = 0;
    bool windowed = false;
    std::shared_ptr<const Stretch> stretch;  // windowed
    std::set<std::int64_t> used;             // offsets modulo the innermost extent: each once
    std::vector<std::byte> bytes;            // drawn anew
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
