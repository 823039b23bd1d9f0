// Stage 2 on the cpu: what a kernel's shared object may not contain, before anything of it runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "evaluators/targets/cpu/elf_image.hpp"
#include "evaluators/targets/screen_verdict.hpp"

namespace cultivar {

// Refuses code that runs while it is loaded, writable statics (state kept between runs is how results are
// replayed), calls of anything but mathematics and memory, and a missing kernel. `trusted` (contenders)
// relaxes all but the last: they still run in the cell. System calls made by hand cannot be seen here; the
// cell's seccomp filter stops them.
ScreenVerdict screen(const ElfImage&, const std::vector<std::string>& kernels, bool trusted);

// Equal for equal kernels: code, constants and the names of what is called; not comments, paths or symbol
// addresses.
std::string machine_code_hash(const ElfImage&);

}  // namespace cultivar
