// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "evaluators/devices/opencl/calls/open_cl.hpp"

namespace cultivar::opencl {

using nlohmann::json;

// simulate SOURCE OPTIONS JOB: compiles the source and runs the plan once, on inputs that look like a task's;
// under a simulator (oclgrind), which takes the place of the machine's drivers and writes down what it finds.
int simulate(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string source = contents_of(argv[0]);
  const json job = json::parse(argv[2]);
  const Opened opened = open_first();
  const char* text = source.c_str();
  const std::size_t length = source.size();
  cl_int code = 0;
  const cl_program program = clCreateProgramWithSource(opened.context, 1, &text, &length, &code);
  check(code, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &opened.device, argv[1], nullptr, nullptr), "clBuildProgram");
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<cl_mem> buffers;
  for (const json& each : job.at("buffers")) {
    const auto bytes = std::max<std::size_t>(each.at("bytes").get<std::size_t>(), 1);
    const bool input = each.at("input").get<bool>();
    const auto element = each.at("element").get<std::string>();
    std::vector<unsigned char> contents(bytes, 0);  // integers and zeroed workspaces
    if (input && element == "f32")
      for (std::size_t i = 0; i + sizeof(float) <= bytes; i += sizeof(float)) {
        const float value = normal(random);
        std::memcpy(contents.data() + i, &value, sizeof value);
      }
    if (input && element == "f64")
      for (std::size_t i = 0; i + sizeof(double) <= bytes; i += sizeof(double)) {
        const double value = static_cast<double>(normal(random));
        std::memcpy(contents.data() + i, &value, sizeof value);
      }
    buffers.push_back(clCreateBuffer(
        opened.context,
        static_cast<cl_mem_flags>(CL_MEM_COPY_HOST_PTR | (input ? CL_MEM_READ_ONLY : CL_MEM_READ_WRITE)),
        bytes, contents.data(), &code));
    check(code, "clCreateBuffer");
  }
  const std::vector<Launch> launches = read_launches(program, job.at("launches"));
  set_arguments(launches, buffers);
  for (const Launch& launch : launches)
    check(clEnqueueNDRangeKernel(opened.queue, launch.kernel, 3, nullptr, launch.global, launch.local, 0,
                                 nullptr, nullptr),
          "clEnqueueNDRangeKernel");
  check(clFinish(opened.queue), "clFinish");
  return 0;
}

}  // namespace cultivar::opencl
