// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/describe.hpp"

#include <fstream>
#include <iterator>
#include <span>

#include "evaluators/devices/cuda/code/cubin.hpp"
#include "evaluators/devices/cuda/code/geometry.hpp"

namespace cultivar::cuda {

void describe_kernels(const Binary& binary, const Plan& plan, const Facts& facts, Profile& profile) {
  std::ifstream file(binary.path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  const auto cubin = read_cubin(std::as_bytes(std::span(bytes)));
  const MultiprocessorLimits limits = limits_of(facts);
  for (const PlannedKernel& planned : plan.kernels) {
    const Geometry g(planned.launch);
    KernelProfile& k = profile.kernels.emplace_back();
    k.name = planned.kernel;
    k.grid = g.grid;
    k.block = g.block;
    k.cluster = g.cluster;
    k.cooperative = g.cooperative;
    k.dynamic_shared_bytes = static_cast<int>(g.shared_bytes);
    const CubinKernel* const code = cubin ? cubin->kernel(planned.kernel) : nullptr;
    if (code == nullptr) continue;
    k.registers = static_cast<int>(code->registers);
    k.stack_bytes = static_cast<int>(code->stack_bytes);
    k.static_shared_bytes = static_cast<int>(code->shared_bytes);
    k.occupancy = occupancy(
        {static_cast<int>(product(g.block)), k.registers, k.static_shared_bytes + k.dynamic_shared_bytes},
        limits);
    k.waves = waves(product(g.grid), k.occupancy, limits);
  }
}

}  // namespace cultivar::cuda
