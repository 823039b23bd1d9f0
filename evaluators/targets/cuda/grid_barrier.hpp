// The barrier of cooperative groups lies in memory of the driver that two special registers lead to. Its word
// outlives a launch, and so does what lies around it.
#pragma once

#include <string>
#include <string_view>

#include "evaluators/targets/cuda/ptx_text.hpp"

namespace cultivar {

// %envreg1 and %envreg2: the halves of the address.
bool leads_to_grid_barrier(std::string_view special_register);

// Where these registers' contents go into anything but what grid.sync() compiles to: add, look at the word,
// compare two looks, go round. "line 4: 'ld.volatile.u32'"; empty: nowhere. Without regard to order. It
// cannot tell whether a kernel adds to the word in turn.
std::string beyond_grid_barrier(const Ptx&);

}  // namespace cultivar
