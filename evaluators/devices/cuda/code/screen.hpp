// SPDX-License-Identifier: Apache-2.0
// Stage 2 on CUDA: what the machine code of a kernel may not contain. Runs before any of its code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evaluators/devices/binary.hpp"
#include "evaluators/devices/cuda/code/cubin.hpp"
#include "evaluators/variant/manifest.hpp"

namespace cultivar {

struct Ptx;

// What ptxas reported about one kernel (--ptxas-options=-v).
struct PtxasReport {
  std::string kernel;
  std::uint32_t registers = 0, barriers = 0, stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0,
                shared_bytes = 0;
};
std::vector<PtxasReport> read_ptxas_log(std::string_view log);
// The most that one of these kernels needs: registers, spill_bytes, stack_bytes, shared_bytes (static),
// constant_bytes, text_bytes, barriers.
Resources resources_of(const Cubin&, std::string_view log, const std::vector<std::string>& kernels);

// Rejects variables that the code could write (a kernel could replay results kept between runs), clocks and
// launch counters (a candidate never sees a timer), device-side malloc and printf, launches from the device,
// memory around the kernel's parameters, discarded caches, any other external reference, more spills than the
// limit, wgmma that ptxas serialized and setmaxnreg that it ignored (C7508, C7510, C7517), a missing kernel,
// and manifest arguments that cannot match the kernel's parameters. Tables that are only read are allowed;
// `ptx` proves it. `trusted` (the judge's own) skips all but the last two checks.
ScreenVerdict screen(const Cubin&, std::string_view ptx, std::string_view log, const Manifest&,
                     const CodeLimits&, bool trusted);
// Checks the log of a failed compile for launches from the device. Passed: it is a plain compile error.
ScreenVerdict screen_errors(std::string_view log);

// Variables, including __constant__ ones, that the code may write according to the PTX. An address that goes
// anywhere but into a load counts as written, and so does every variable if the PTX cannot be analyzed.
struct WritableVariable {
  std::string name, why;  // "line 4: its address goes into 'st.global.f32'"
};
std::vector<WritableVariable> writable_variables(const Cubin&, std::string_view ptx);

// Where a kernel reads beyond its parameters or lets the address of one go out of sight; empty: nowhere.
std::string beyond_parameters(const Ptx&);

// The barrier of cooperative groups lies in driver memory whose address is in two special registers. The
// barrier word and the memory around it outlive a launch.
//
// True for %envreg1 and %envreg2, the halves of the address.
bool leads_to_grid_barrier(std::string_view special_register);

// The first place where the contents of these registers are used by anything other than the code of
// grid.sync(): add, read the word, compare two reads, loop. For example "line 4: 'ld.volatile.u32'"; empty if
// there is none. Ignores the order of statements, and cannot tell whether a kernel adds to the word out of
// turn.
std::string beyond_grid_barrier(const Ptx&);

}  // namespace cultivar
