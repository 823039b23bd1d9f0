// SPDX-License-Identifier: Apache-2.0
// With HMM (Heterogeneous Memory Management) or ATS a GPU can read all memory of a process by its host
// addresses, expected values and random seeds included. No screen sees what address a kernel loads from, so
// the worker asks the driver to leave its memory alone. A card that cannot is reported as a weakness; there,
// only the random addresses (device_memory.hpp, address space layout randomization) stand in the way.
#pragma once

#include <string>

namespace cultivar::cuda {

class Gpu;

// What to change if kernels on this card could read the worker's memory; empty if they cannot. Call after the
// context was created.
std::string pageable_memory_obstacle(const Gpu&);

}  // namespace cultivar::cuda
