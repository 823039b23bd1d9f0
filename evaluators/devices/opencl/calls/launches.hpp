// SPDX-License-Identifier: Apache-2.0
// The launches of a plan, as a job describes them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "evaluators/devices/opencl/calls/open_cl.hpp"

namespace cultivar::opencl {

struct Launch {
  struct Argument {
    int buffer = -1;        // -1: a scalar
    std::size_t bytes = 0;  // of a scalar
    std::uint64_t bits = 0;
  };
  cl_kernel kernel = nullptr;
  std::vector<Argument> arguments;
  std::size_t global[3] = {}, local[3] = {};
  std::size_t local_bytes = 0;  // of the last parameter; 0: it is no pointer to local memory
};

// From [{"kernel", "global", "local", "local_bytes", "arguments"}, ...].
std::vector<Launch> read_launches(cl_program, const nlohmann::json&);
void set_arguments(const std::vector<Launch>&, std::span<const cl_mem> buffers);

// The first arguments of a program's mode are files that it reads whole.
std::string contents_of(const std::string& file);

}  // namespace cultivar::opencl
