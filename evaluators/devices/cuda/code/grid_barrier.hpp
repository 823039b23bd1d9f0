// SPDX-License-Identifier: Apache-2.0
// The barrier of cooperative groups lies in driver memory whose address is in two special registers. The
// barrier word and the memory around it outlive a launch.
#pragma once

#include <string>
#include <string_view>

#include "evaluators/devices/cuda/code/ptx_text.hpp"

namespace cultivar {

// True for %envreg1 and %envreg2, the halves of the address.
bool leads_to_grid_barrier(std::string_view special_register);

// The first place where the contents of these registers are used by anything other than the code of
// grid.sync(): add, read the word, compare two reads, loop. For example "line 4: 'ld.volatile.u32'"; empty if
// there is none. Ignores the order of statements, and cannot tell whether a kernel adds to the word out of
// turn.
std::string beyond_grid_barrier(const Ptx&);

}  // namespace cultivar
