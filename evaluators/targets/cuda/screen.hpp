// Stage 2 on CUDA: what a kernel's machine code may not contain, before anything of it runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evaluators/targets/cuda/cubin.hpp"
#include "evaluators/targets/screen_verdict.hpp"
#include "evaluators/variant/manifest.hpp"

namespace cultivar {

// What ptxas said of one kernel (--ptxas-options=-v).
struct PtxasReport {
  std::string kernel;
  std::uint32_t registers = 0, barriers = 0, stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0,
                shared_bytes = 0;
};
std::vector<PtxasReport> read_ptxas_log(std::string_view log);

// Refuses variables that the code could write (state kept between runs is how results are replayed), clocks
// and counters of launches (a candidate never sees a timer), device-side malloc and printf, launches from the
// device, anything else from outside, more spills than the limit, wgmma that ptxas serialised and setmaxnreg
// that it ignored (C7508, C7510, C7517), a missing kernel, and arguments of the manifest that cannot be the
// kernel's parameters. Tables that are only read may stay: `ptx` shows that. `trusted` (contenders) relaxes
// all but the last two.
ScreenVerdict screen(const Cubin&, std::string_view ptx, std::string_view log, const Manifest&,
                     const CodeLimits&, bool trusted);
// The same for what NVRTC refused to compile at all: launches from the device. Passed: a plain compile error.
ScreenVerdict screen_errors(std::string_view log);

// Variables, __constant__ ones included, that the code may write, as far as the PTX tells: an address that
// goes anywhere but into a load counts as written, and so does everything in PTX that cannot be followed.
struct WritableVariable {
  std::string name, why;  // "line 4: its address goes into 'st.global.f32'"
};
std::vector<WritableVariable> writable_variables(const Cubin&, std::string_view ptx);

}  // namespace cultivar
