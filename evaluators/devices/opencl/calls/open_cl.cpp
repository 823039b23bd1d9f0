// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/calls/open_cl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace cultivar::opencl {

std::string name_of_error(cl_int code) {
  switch (code) {
    case CL_DEVICE_NOT_AVAILABLE:
      return "CL_DEVICE_NOT_AVAILABLE";
    case CL_COMPILER_NOT_AVAILABLE:
      return "CL_COMPILER_NOT_AVAILABLE";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case CL_OUT_OF_RESOURCES:
      return "CL_OUT_OF_RESOURCES";
    case CL_OUT_OF_HOST_MEMORY:
      return "CL_OUT_OF_HOST_MEMORY";
    case CL_PROFILING_INFO_NOT_AVAILABLE:
      return "CL_PROFILING_INFO_NOT_AVAILABLE";
    case CL_BUILD_PROGRAM_FAILURE:
      return "CL_BUILD_PROGRAM_FAILURE";
    case CL_MISALIGNED_SUB_BUFFER_OFFSET:
      return "CL_MISALIGNED_SUB_BUFFER_OFFSET";
    case CL_INVALID_BINARY:
      return "CL_INVALID_BINARY";
    case CL_INVALID_BUILD_OPTIONS:
      return "CL_INVALID_BUILD_OPTIONS";
    case CL_INVALID_KERNEL_NAME:
      return "CL_INVALID_KERNEL_NAME";
    case CL_INVALID_ARG_INDEX:
      return "CL_INVALID_ARG_INDEX";
    case CL_INVALID_ARG_VALUE:
      return "CL_INVALID_ARG_VALUE";
    case CL_INVALID_ARG_SIZE:
      return "CL_INVALID_ARG_SIZE";
    case CL_INVALID_KERNEL_ARGS:
      return "CL_INVALID_KERNEL_ARGS";
    case CL_INVALID_WORK_GROUP_SIZE:
      return "CL_INVALID_WORK_GROUP_SIZE";
    case CL_INVALID_WORK_ITEM_SIZE:
      return "CL_INVALID_WORK_ITEM_SIZE";
    case CL_INVALID_BUFFER_SIZE:
      return "CL_INVALID_BUFFER_SIZE";
    case CL_INVALID_GLOBAL_WORK_SIZE:
      return "CL_INVALID_GLOBAL_WORK_SIZE";
    case -1001:
      return "no platform";
    default:
      return fmt::format("error {}", code);
  }
}

CallFailed::CallFailed(const std::string& call, cl_int failed)
    : std::runtime_error(call + ": " + name_of_error(failed)), code(failed) {}

std::string text_of(cl_device_id device, cl_device_info what) {
  std::size_t bytes = 0;
  check(clGetDeviceInfo(device, what, 0, nullptr, &bytes), "clGetDeviceInfo");
  std::string text(bytes, '\0');
  check(clGetDeviceInfo(device, what, bytes, text.data(), nullptr), "clGetDeviceInfo");
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string platform_of(cl_device_id device) {
  const auto platform = number_of<cl_platform_id>(device, CL_DEVICE_PLATFORM);
  std::size_t bytes = 0;
  check(clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, nullptr, &bytes), "clGetPlatformInfo");
  std::string text(bytes, '\0');
  check(clGetPlatformInfo(platform, CL_PLATFORM_NAME, bytes, text.data(), nullptr), "clGetPlatformInfo");
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

bool is_processor(cl_device_id device) {
  return (number_of<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
}

std::vector<cl_device_id> all_devices() {
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return {};
  std::vector<cl_platform_id> platforms(count);
  check(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  std::vector<cl_device_id> all;
  for (const cl_platform_id platform : platforms) {
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> devices(count);
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr), "clGetDeviceIDs");
    for (const cl_device_id device : devices)
      if (number_of<cl_bool>(device, CL_DEVICE_AVAILABLE) &&
          number_of<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE))
        all.push_back(device);
  }
  std::stable_partition(all.begin(), all.end(), [](cl_device_id device) { return !is_processor(device); });
  return all;
}

Opened open_first() {
  const std::vector<cl_device_id> all = all_devices();
  if (all.empty())
    throw NoDevice(
        "no OpenCL device with a compiler is on this machine; apt-get install pocl-opencl-icd for its "
        "processor, or "
        "the driver of your card");
  Opened opened{all.front()};
  cl_int code = 0;
  opened.context = clCreateContext(nullptr, 1, &opened.device, nullptr, nullptr, &code);
  check(code, "clCreateContext");
  opened.queue = clCreateCommandQueue(opened.context, opened.device, CL_QUEUE_PROFILING_ENABLE, &code);
  check(code, "clCreateCommandQueue");
  return opened;
}

int list_devices() {
  nlohmann::json list = nlohmann::json::array();
  for (const cl_device_id device : all_devices())
    list.push_back({{"name", text_of(device, CL_DEVICE_NAME)},
                    {"platform", platform_of(device)},
                    {"version", text_of(device, CL_DEVICE_VERSION)},
                    {"driver", text_of(device, CL_DRIVER_VERSION)},
                    {"processor", is_processor(device)},
                    {"compute_units", number_of<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS)},
                    {"group_max", number_of<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE)},
                    {"local_bytes_max", number_of<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE)},
                    {"cache_bytes", number_of<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE)},
                    {"vector_floats", number_of<cl_uint>(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT)}});
  fmt::print("{}\n", list.dump());
  return 0;
}

using nlohmann::json;

std::vector<Launch> read_launches(cl_program program, const json& list) {
  std::vector<Launch> launches;
  for (const json& each : list) {
    Launch launch;
    cl_int code = 0;
    launch.kernel = clCreateKernel(program, each.at("kernel").get<std::string>().c_str(), &code);
    check(code, "clCreateKernel");
    for (std::size_t d = 0; d < 3; ++d) {
      launch.global[d] = each.at("global").at(d).get<std::size_t>();
      launch.local[d] = each.at("local").at(d).get<std::size_t>();
    }
    launch.local_bytes = each.at("local_bytes").get<std::size_t>();
    for (const json& argument : each.at("arguments"))
      launch.arguments.push_back({argument.value("buffer", -1), argument.value("bytes", std::size_t{0}),
                                  argument.value("bits", std::uint64_t{0})});
    launches.push_back(std::move(launch));
  }
  return launches;
}

void set_arguments(const std::vector<Launch>& launches, std::span<const cl_mem> buffers) {
  for (const Launch& launch : launches) {
    cl_uint index = 0;
    for (const Launch::Argument& argument : launch.arguments) {
      if (argument.buffer < 0)
        check(clSetKernelArg(launch.kernel, index, argument.bytes, &argument.bits), "clSetKernelArg");
      else if (const auto number = static_cast<std::size_t>(argument.buffer); number < buffers.size())
        check(clSetKernelArg(launch.kernel, index, sizeof(cl_mem), &buffers[number]), "clSetKernelArg");
      ++index;
    }
    if (launch.local_bytes > 0)
      check(clSetKernelArg(launch.kernel, index, launch.local_bytes, nullptr), "clSetKernelArg");
  }
}

std::string contents_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace cultivar::opencl
