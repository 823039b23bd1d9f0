// SPDX-License-Identifier: Apache-2.0
// What a compiled OpenCL program may not contain. Drivers for processors put shared objects with native code
// into the programs that they hand out (PoCL: one for each kernel); those can be read. Others are the
// driver's secret, and run on a device of its own.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "evaluators/devices/binary.hpp"

namespace cultivar {

struct OpenclCode {
  ScreenVerdict verdict;
  std::string hash;         // of native code where it is found, otherwise of the whole program
  double text_bytes = 0.0;  // of native code; 0: none was found
};

// Rejects native code that reads a clock, calls the operating system or a library, or has variables that it
// can write, all of which only inline assembly and builtins of the compiler can do. `scratch`: a folder for
// the files that are taken out.
OpenclCode examine_opencl_code(std::span<const std::byte> program, const std::filesystem::path& scratch);

}  // namespace cultivar
