// SPDX-License-Identifier: Apache-2.0
// The contents of a cubin: kernels with their resources and parameters, variables, and external references.
// Reads the ELF file that NVRTC writes and checks every offset; needs no GPU, driver or toolkit.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

struct CubinParameter {
  std::uint32_t offset = 0, bytes = 0;
};

struct CubinKernel {
  std::string name;
  std::uint32_t registers = 0;       // per thread
  std::uint32_t stack_bytes = 0;     // per thread: local arrays and spilled registers
  std::uint32_t shared_bytes = 0;    // static, per block
  std::uint32_t constant_bytes = 0;  // bank of parameters and literals
  std::uint32_t barriers = 0;        // named barriers (bar.sync), per block
  std::uint64_t code_bytes = 0;
  std::vector<CubinParameter> parameters;                       // in source order
  std::optional<std::array<std::uint32_t, 3>> threads_at_most;  // __launch_bounds__
  std::optional<std::array<std::uint32_t, 3>> threads_exactly;  // __block_size__, .reqntid
  std::optional<std::array<std::uint32_t, 3>> cluster_exactly;  // __cluster_dims__
};

struct CubinVariable {
  std::string name;
  std::uint64_t bytes = 0;
  bool initialised = false;
};

struct Cubin {
  int architecture = 0;                  // 90 for sm_90 and sm_90a
  std::vector<CubinKernel> kernels;      // entry functions only
  std::vector<CubinVariable> globals;    // __device__ variables and static tables, which the code may write
  std::vector<CubinVariable> constants;  // __constant__
  std::vector<std::string> externals;    // functions and variables that are referenced but not defined here
  std::string code_hash;                 // equal for equal machine code, whatever the kernels' names

  const CubinKernel* kernel(std::string_view name) const;
};

// `order`: the kernels in the order of the plan, so that the hash does not depend on their names. Empty:
// ordered by name.
Expected<Cubin> read_cubin(std::span<const std::byte> file, const std::vector<std::string>& order = {});

}  // namespace cultivar
