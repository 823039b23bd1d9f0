// Where NVRTC and the headers that kernels include are on this machine. Found at run time: nothing of CUDA is
// needed to build Cultivar.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "evaluators/error.hpp"

namespace cultivar {

struct CudaToolkit {
  std::filesystem::path library;                // libnvrtc.so.13, links resolved
  std::vector<std::filesystem::path> includes;  // with cuda_fp16.h, cuda_bf16.h; and cuda/std, where present
  int major = 0, minor = 0;                     // NVRTC's version
  std::vector<int> architectures;               // compute capabilities it compiles for: 75, 80, ...
  std::string version() const;                  // "13.0"
};

// The first that loads of: `library`, when given; a folder `cuda` beside the running program or beside its
// folder (lib, include: a bundle); the toolkit that CMake found; /usr/local/cuda; the system's libraries.
// NVRTC is loaded in a process of its own, `program` (cultivar-nvrtc). The Error says what to install.
Expected<CudaToolkit> find_cuda_toolkit(const std::filesystem::path& program,
                                        const std::filesystem::path& library = {});

}  // namespace cultivar
