// The launch of a cuda kernel by the driver, which is loaded at run time: no toolkit is needed to compile this.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "prove_values.hpp"

struct DriverAttribute {  // CUlaunchAttribute
  int id = 0;
  char padding[4] = {};
  union {
    unsigned words[16];
    int value;
  };
};
struct DriverLaunch {  // CUlaunchConfig
  unsigned grid[3], block[3], shared;
  void* stream;
  DriverAttribute* attributes;
  unsigned count;
};

// 0, or a code that says which call failed. Runs in a process of its own: it leaves what it allocated.
inline int run_on_device(const std::string& path, const std::vector<Launch>& launches,
                         const std::map<std::string, void*>& pointers, const std::map<std::string, std::size_t>& sizes) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return 20;
  const auto call = [&](const char* name, auto... args) {
    const auto function = reinterpret_cast<int (*)(decltype(args)...)>(dlsym(driver, name));
    return function ? function(args...) : -1;
  };
  int device = 0;
  void *context = nullptr, *module = nullptr;
  if (call("cuInit", 0u) || call("cuDeviceGet", &device, 0) || call("cuDevicePrimaryCtxRetain", &context, device) ||
      call("cuCtxSetCurrent", context))
    return 21;
  std::ifstream file(path, std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), {});
  if (call("cuModuleLoadData", &module, image.data())) return 22;
  constexpr std::size_t kGuard = 4096;
  std::map<std::string, unsigned long long> places;
  for (const auto& [name, host] : pointers) {
    unsigned long long place = 0;
    const std::size_t bytes = sizes.at(name) + kGuard;
    if (call("cuMemAlloc_v2", &place, bytes) || call("cuMemcpyHtoD_v2", place, static_cast<const void*>(host), bytes)) return 23;
    places[name] = place;
  }
  for (const Launch& launch : launches) {
    void* function = nullptr;
    if (call("cuModuleGetFunction", &function, module, launch.function.c_str())) return 24;
    if (launch.shared > 48 * 1024 && call("cuFuncSetAttribute", function, 8, static_cast<int>(launch.shared))) return 25;
    std::vector<std::vector<char>> values;
    std::vector<void*> args;
    for (const auto& [kind, text] : launch.args) {
      std::vector<char> value(8);
      if (kind == "tensor") {
        std::memcpy(value.data(), &places.at(text), 8);
      } else if (kind == "f32") {
        const float v = std::stof(text);
        std::memcpy(value.data(), &v, 4);
      } else {
        const long long v = std::stoll(text);
        std::memcpy(value.data(), &v, 8);  // little-endian: an int is its first half
      }
      values.push_back(value);
    }
    for (auto& value : values) args.push_back(value.data());
    DriverLaunch config{};
    for (int i = 0; i < 3; ++i) config.grid[i] = launch.grid[i], config.block[i] = launch.block[i];
    config.shared = launch.shared;
    DriverAttribute attributes[2];
    std::memset(attributes, 0, sizeof attributes);
    if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 1) {
      attributes[config.count].id = 4;  // the dimensions of a cluster
      for (int i = 0; i < 3; ++i) attributes[config.count].words[i] = launch.cluster[i];
      ++config.count;
    }
    if (launch.cooperative) {
      attributes[config.count].id = 2;
      attributes[config.count++].value = 1;
    }
    config.attributes = attributes;
    if (call("cuLaunchKernelEx", static_cast<const DriverLaunch*>(&config), function, args.data(), static_cast<void**>(nullptr)))
      return 26;
  }
  if (call("cuCtxSynchronize")) return 27;  // it died
  for (const auto& [name, host] : pointers)
    if (call("cuMemcpyDtoH_v2", host, places.at(name), sizes.at(name))) return 28;
  return 0;
}
