// SPDX-License-Identifier: Apache-2.0
// Real contender libraries, built for a test from tests/kernels/contenders by the C compiler with only the
// public header.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include "support/command.hpp"

namespace cultivar::testing {

// Builds folder/libNAME.so from softmax.c with this macro ("": the correct version); otherwise named after
// the macro.
inline std::filesystem::path contender_library(const std::filesystem::path& folder, const std::string& macro,
                                               std::string name = "") {
  const std::string source = CULTIVAR_SOURCE_DIR;
  if (name.empty()) name = macro.empty() ? "plain" : macro;
  const std::filesystem::path made = folder / ("lib" + name + ".so");
  const auto compiled = run_command(
      {"cc", "-std=gnu99", "-pedantic", "-Wall", "-Werror", "-Wno-unused", "-O2", "-shared", "-fPIC",
       "-I" + source + "/evaluators/contenders", macro.empty() ? "-DPLAIN" : "-D" + macro,
       source + "/tests/kernels/contenders/softmax.c", "-o", made.string(), "-lm", "-pthread"},
      {.folder = {}, .environment = {}, .deadline_s = 240.0});
  if (compiled.exit != 0)
    throw std::runtime_error("cc ended with " + std::to_string(compiled.exit) + "\n" + compiled.out +
                             compiled.err);
  return made;
}

}  // namespace cultivar::testing
