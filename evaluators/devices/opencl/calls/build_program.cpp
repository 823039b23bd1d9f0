// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "evaluators/devices/opencl/calls/open_cl.hpp"

namespace cultivar::opencl {
namespace {

void write(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + file);
}

std::string log_of(cl_program program, cl_device_id device) {
  std::size_t bytes = 0;
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) != CL_SUCCESS)
    return {};
  std::string log(bytes, '\0');
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr) != CL_SUCCESS)
    return {};
  while (!log.empty() && log.back() == '\0') log.pop_back();
  return log;
}

std::string type_of_parameter(cl_kernel kernel, cl_uint index) {
  char text[256] = {};
  if (clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_NAME, sizeof text - 1, text, nullptr) !=
      CL_SUCCESS)
    return {};
  return text;
}

std::string space_of_parameter(cl_kernel kernel, cl_uint index) {
  cl_kernel_arg_address_qualifier space = 0;
  if (clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof space, &space, nullptr) !=
      CL_SUCCESS)
    return {};
  switch (space) {
    case CL_KERNEL_ARG_ADDRESS_GLOBAL:
      return "global";
    case CL_KERNEL_ARG_ADDRESS_LOCAL:
      return "local";
    case CL_KERNEL_ARG_ADDRESS_CONSTANT:
      return "constant";
    default:
      return "private";
  }
}

}  // namespace

// compile SOURCE OUT OPTIONS: writes OUT/variant.log; if the source compiles, also OUT/variant.bin, the
// program for this device, and OUT/variant.json, the parameters of its kernels. Exit code 1: it does not
// compile.
int build_program(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string source = contents_of(argv[0]), out = argv[1];
  const Opened opened = open_first();
  const char* text = source.c_str();
  const std::size_t length = source.size();
  cl_int code = 0;
  const cl_program program = clCreateProgramWithSource(opened.context, 1, &text, &length, &code);
  check(code, "clCreateProgramWithSource");
  code = clBuildProgram(program, 1, &opened.device, argv[2], nullptr, nullptr);
  write(out + "/variant.log", log_of(program, opened.device));
  if (code == CL_BUILD_PROGRAM_FAILURE || code == CL_INVALID_BUILD_OPTIONS) return 1;
  check(code, "clBuildProgram");

  nlohmann::json kernels = nlohmann::json::object();
  cl_uint count = 0;
  check(clCreateKernelsInProgram(program, 0, nullptr, &count), "clCreateKernelsInProgram");
  std::vector<cl_kernel> made(count);
  if (count > 0)
    check(clCreateKernelsInProgram(program, count, made.data(), nullptr), "clCreateKernelsInProgram");
  for (const cl_kernel kernel : made) {
    char name[512] = {};
    cl_uint parameters = 0;
    check(clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, nullptr),
          "clGetKernelInfo");
    check(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof parameters, &parameters, nullptr),
          "clGetKernelInfo");
    nlohmann::json list = nlohmann::json::array();
    for (cl_uint i = 0; i < parameters; ++i)
      list.push_back({{"type", type_of_parameter(kernel, i)}, {"space", space_of_parameter(kernel, i)}});
    kernels[name] = std::move(list);
  }
  std::size_t bytes = 0;
  check(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, nullptr),
        "clGetProgramInfo");
  std::string binary(bytes, '\0');
  char* place = binary.data();
  check(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof place, &place, nullptr), "clGetProgramInfo");
  write(out + "/variant.bin", binary);
  write(out + "/variant.json", kernels.dump());
  return 0;
}

}  // namespace cultivar::opencl
