// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/calls/launches.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace cultivar::opencl {

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
