// SPDX-License-Identifier: Apache-2.0
// Finds NVRTC and the headers that kernels include on this machine, at run time: building Cultivar needs
// nothing of CUDA. Checks what a source may include of them, where only its text can be checked.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

struct CudaToolkit {
  std::filesystem::path library;                // libnvrtc.so.13, links resolved
  std::vector<std::filesystem::path> includes;  // hold cuda_fp16.h and cuda_bf16.h, and cuda/std if present
  int major = 0, minor = 0;                     // NVRTC's version
  std::vector<int> architectures;               // compute capabilities it compiles for: 75, 80, ...
  std::string version() const;                  // "13.0"
};

// Uses the first of these that loads: `library`, if given; a folder `cuda` beside the running program or
// beside its folder (with lib and include: a bundle); the toolkit that CMake found; /usr/local/cuda; the
// system's libraries. NVRTC is loaded in a separate process, `program` (cultivar-nvrtc). The Error says what
// to install.
Expected<CudaToolkit> find_cuda_toolkit(const std::filesystem::path& program,
                                        const std::filesystem::path& library = {});

// The first directive that could open a file outside these folders and the variant's own headers, or that
// cannot be interpreted; empty if there is none. Judges by the text alone, including comments and dead
// branches, so it rejects too much rather than too little.
std::string include_beyond(std::string_view source, const std::vector<std::filesystem::path>& folders);

}  // namespace cultivar
