// SPDX-License-Identifier: Apache-2.0
// The part of OpenCL 1.2 that the program cultivar-opencl calls: one device with its queue. The only code
// with OpenCL's headers; it is built where they are installed.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace cultivar::opencl {

// A call of OpenCL failed. The message names the call and the error: "clBuildProgram:
// CL_BUILD_PROGRAM_FAILURE".
struct CallFailed : std::runtime_error {
  CallFailed(const std::string& call, cl_int code);
  cl_int code;
};
// There is no platform or no device: exit code 3 of the program.
struct NoDevice : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string name_of_error(cl_int);
inline void check(cl_int code, const char* call) {
  if (code != CL_SUCCESS) throw CallFailed(call, code);
}

// All devices of all platforms of the machine: first GPUs and accelerators, then processors, each kind in the
// order of the loader.
std::vector<cl_device_id> all_devices();

std::string text_of(cl_device_id, cl_device_info);
std::string platform_of(cl_device_id);
template <class T>
T number_of(cl_device_id device, cl_device_info what) {
  T value{};
  check(clGetDeviceInfo(device, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}
// Whether its kernels run on the processor of this machine, in the process that launches them.
bool is_processor(cl_device_id);

// The first of all devices, with a context and a queue in order that records times. Lives until the process
// ends: some drivers crash when they are unloaded.
struct Opened {
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
};
Opened open_first();  // throws NoDevice

// The modes of the program. Each returns its exit code.
int list_devices();
int measure_ceilings();
int build_program(int argc, char** argv);
int serve_cell(int argc, char** argv);
int simulate(int argc, char** argv);

// The launches of a plan, as a job describes them.
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
