// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/perturbation.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

// In [-1, 1), from a mix of the bits (the finalizer of splitmix64).
double share_of(double value, std::uint64_t seed) {
  std::uint64_t x = std::bit_cast<std::uint64_t>(value) + seed;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<double>(static_cast<std::int64_t>(x)) * 0x1p-63;
}

void perturb(Dtype dtype, std::uint64_t seed, std::span<std::byte> bytes) {
  constexpr std::size_t kPart = 4096;
  constexpr double kSmall = 0x1p-10;
  const std::size_t width = size_of(dtype), count = bytes.size() / width;
  const double most = std::max(kSmall, 0.75 * epsilon_of(dtype));
  tbb::parallel_for(std::size_t{0}, (count + kPart - 1) / kPart, [&](std::size_t part) {
    const std::size_t first = part * kPart, some = std::min(kPart, count - first);
    const std::span<std::byte> elements = bytes.subspan(first * width, some * width);
    std::vector<double> values(some);
    decode(dtype, elements, values);
    for (double& value : values) {
      const double changed = round_to(dtype, value * (1.0 + most * share_of(value, seed)));
      if (std::isfinite(value) && std::isfinite(changed)) value = changed;
    }
    encode(dtype, values, elements);
  });
}

}  // namespace

void perturb_values(const Task& task, const Workload& workload, std::uint64_t seed,
                    std::span<std::vector<std::byte>> inputs) {
  std::size_t next = 0;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    std::vector<std::byte>& bytes = inputs[next++];
    const Dtype dtype = task.dtype(tensor, workload);
    if (is_floating(dtype) && !task.is_derived(tensor.name))
      perturb(dtype, seed ^ name_hash(tensor.name), bytes);
  }
}

}  // namespace cultivar
