// With HMM (Heterogeneous Memory Management) or ATS a GPU can read all memory of a process by its host
// addresses, expected values and random seeds included. No screen sees what address a kernel loads from, so
// the worker asks the driver to leave its memory alone, and does not judge on a card that does not.
#pragma once

#include <string>

namespace cultivar::cuda {

class Gpu;

// What to change if kernels on this card could read the worker's memory; empty if they cannot. Call after the
// context was created. With CULTIVAR_ALLOW_PAGEABLE_ACCESS set, the driver is not asked.
std::string pageable_memory_obstacle(const Gpu&);
bool pageable_memory_allowed();  // CULTIVAR_ALLOW_PAGEABLE_ACCESS is set: judge nevertheless

}  // namespace cultivar::cuda
