// SPDX-License-Identifier: Apache-2.0
// Whose fault it is that a card has too little memory: the kernel's, or that of other programs.
#pragma once

#include <cstdint>
#include <string>

#include "evaluators/devices/device.hpp"

namespace cultivar::cuda {

struct CardMemory {
  std::uint64_t total = 0, free = 0;  // bytes
  std::uint64_t own = 0;              // what this process has allocated
};

// After `needed` more bytes could not be allocated: memory_held if they would fit without other programs,
// else out_of_memory. `what` begins the fault's text.
Fault lack_of_memory(const CardMemory&, std::uint64_t needed, const std::string& what);

}  // namespace cultivar::cuda
