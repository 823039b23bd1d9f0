// Fresh inputs for every timed run at the price of a copy. An input whose elements are drawn independently is
// kept as a longer secret stretch; each run gets another window of it, never seen before and
// aligned to nothing, so that no output of an earlier run, nor any row of one, is right again. Other fills
// are drawn anew for each run.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "evaluators/check/oracle.hpp"

namespace cultivar {

class InputPool {
 public:
  // Keeps a reference to the task.
  InputPool(const Task&, const Workload&, std::uint64_t seed);

  void next();  // makes the inputs of the next run; the view below changes with it
  InputView view() const { return {bytes_, values_}; }

 private:
  struct Stretch {
    const TensorSpec* spec = nullptr;
    Dtype dtype = Dtype::f32;
    std::vector<std::int64_t> shape;
    std::int64_t elements = 0, innermost = 1, slack = 0;
    bool windowed = false;
    std::vector<std::byte> bytes;  // of the stretch; empty when drawn anew
    std::vector<double> decoded;
    std::set<std::int64_t> used;  // offsets modulo the innermost extent: each once
  };

  static void draw(Stretch&, std::uint64_t seed);

  std::uint64_t seed_;
  std::uint64_t runs_ = 0;
  std::mt19937_64 stream_;
  std::vector<Stretch> stretches_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<const double*> values_;
};

}  // namespace cultivar
