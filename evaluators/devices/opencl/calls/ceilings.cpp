// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "evaluators/devices/opencl/calls/open_cl.hpp"

namespace cultivar::opencl {
namespace {

constexpr const char* kSource = R"(
#ifdef HALF
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half Number;
typedef half8 Vector;
#else
typedef float Number;
typedef float8 Vector;
#endif
__kernel void multiply_add(__global float* out, int iterations) {
  Vector a = (Vector)((Number)get_local_id(0)) + (Vector)(0, 1, 2, 3, 4, 5, 6, 7), b = a + (Number)8;
  for (int i = 0; i < iterations; ++i) {
    a = fma(a, (Vector)((Number)0.999f), (Vector)((Number)0.001f));
    b = fma(b, (Vector)((Number)0.999f), (Vector)((Number)0.001f));
  }
  a += b;
  out[get_global_id(0)] = (float)(a.s0 + a.s1 + a.s2 + a.s3 + a.s4 + a.s5 + a.s6 + a.s7);
}
__kernel void copy(__global float4* to, __global const float4* from) { to[get_global_id(0)] = from[get_global_id(0)]; }
__kernel void add_up(__global float* to, __global const float4* from, int count, int passes) {
  float4 sum = 0.0f;
  for (int pass = 0; pass < passes; ++pass)
    for (int i = get_global_id(0); i < count; i += get_global_size(0)) sum += from[i] * (float)(pass + 1);
  to[get_global_id(0)] = sum.x + sum.y + sum.z + sum.w;
}
__kernel void nothing(void) {}
)";
constexpr std::size_t kGroup = 256;

class Meter {
 public:
  Meter() : opened_(open_first()) {}

  nlohmann::json measure() {
    const auto most = number_of<cl_ulong>(opened_.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    const std::size_t bytes = std::min<std::size_t>(std::size_t{1} << 29, most) / 4096 * 4096;
    const cl_mem from = memory(bytes), to = memory(bytes);
    const std::size_t items = kGroup * 64 * number_of<cl_uint>(opened_.device, CL_DEVICE_MAX_COMPUTE_UNITS);
    constexpr int iterations = 4096, passes = 64;
    const double operations = 2.0 * 16.0 * iterations * static_cast<double>(items);
    double flops = 0.0;
    if (text_of(opened_.device, CL_DEVICE_EXTENSIONS).find("cl_khr_fp16") != std::string::npos) {
      build("-cl-std=CL1.2 -D HALF");
      flops = operations / seconds(10, "multiply_add", items, to, iterations);
    }
    build("-cl-std=CL1.2");
    flops = std::max(flops, operations / seconds(10, "multiply_add", items, to, iterations));
    const double rate = 2.0 * static_cast<double>(bytes) / seconds(10, "copy", bytes / 16, to, from);
    const auto cache = number_of<cl_ulong>(opened_.device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    const std::size_t near = std::clamp<std::size_t>(cache / 4, std::size_t{1} << 20, bytes) / 4096 * 4096;
    const double cached = static_cast<double>(near) * passes /
                          seconds(10, "add_up", items, to, from, static_cast<cl_int>(near / 16), passes);
    return {{"flops", flops},
            {"bytes_per_second", rate},
            {"cached_bytes_per_second", std::max(cached, rate)},
            {"handshake_s", seconds(20, "nothing", kGroup)}};
  }

 private:
  void build(const char* options) {
    cl_int code = 0;
    const char* text = kSource;
    program_ = clCreateProgramWithSource(opened_.context, 1, &text, nullptr, &code);
    check(code, "clCreateProgramWithSource");
    check(clBuildProgram(program_, 1, &opened_.device, options, nullptr, nullptr), "clBuildProgram");
  }

  cl_mem memory(std::size_t bytes) {
    cl_int code = 0;
    const cl_mem made = clCreateBuffer(opened_.context, CL_MEM_READ_WRITE, bytes, nullptr, &code);
    check(code, "clCreateBuffer");
    const cl_float value = 0.5f;
    check(clEnqueueFillBuffer(opened_.queue, made, &value, sizeof value, 0, bytes, 0, nullptr, nullptr),
          "clEnqueueFillBuffer");
    return made;
  }

  // The shortest of `runs` launches.
  template <class... Arguments>
  double seconds(int runs, const char* name, std::size_t items, Arguments... arguments) {
    cl_int code = 0;
    const cl_kernel kernel = clCreateKernel(program_, name, &code);
    check(code, "clCreateKernel");
    cl_uint index = 0;
    (check(clSetKernelArg(kernel, index++, sizeof arguments, &arguments), "clSetKernelArg"), ...);
    double best = 1e9;
    for (int i = 0; i <= runs; ++i) {
      cl_event event = nullptr;
      check(clEnqueueNDRangeKernel(opened_.queue, kernel, 1, nullptr, &items, &kGroup, 0, nullptr, &event),
            "clEnqueueNDRangeKernel");
      check(clFinish(opened_.queue), "clFinish");
      cl_ulong begin = 0, end = 0;
      check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr),
            "clGetEventProfilingInfo");
      check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr),
            "clGetEventProfilingInfo");
      clReleaseEvent(event);
      if (i > 0) best = std::min(best, 1e-9 * static_cast<double>(std::max<cl_ulong>(end - begin, 1)));
    }
    return best;
  }

  Opened opened_;
  cl_program program_ = nullptr;
};

}  // namespace

int measure_ceilings() {
  fmt::print("\n{}\n", Meter().measure().dump());
  return 0;
}

}  // namespace cultivar::opencl
