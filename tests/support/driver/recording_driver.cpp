// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 without a GPU: memory is host memory, and launches compute nothing and are recorded, one
// line for each call that affects one, in the file $RECORDED_DRIVER_CALLS. Launch lines contain the bytes of
// every argument. The size of each argument comes from $RECORDED_DRIVER_ARGUMENTS, "kernel=8,128,4;other=8",
// because a real driver would read it from the cubin.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Function {
  std::string name;
  int max_dynamic_shared = 0, nonportable_cluster = 0;
};
struct Attribute {
  int id, pad;
  unsigned value[16];
};
struct Config {
  unsigned grid[3], block[3], shared;
  void* stream;
  const Attribute* attributes;
  unsigned count;
};

void write(const std::string& line) {
  const char* const file = std::getenv("RECORDED_DRIVER_CALLS");
  if (file == nullptr) return;
  std::FILE* out = std::fopen(file, "a");
  std::fprintf(out, "%s\n", line.c_str());
  std::fclose(out);
}

std::vector<std::size_t> argument_bytes(const std::string& kernel) {
  const char* const told = std::getenv("RECORDED_DRIVER_ARGUMENTS");
  std::istringstream all(told ? told : "");
  for (std::string one; std::getline(all, one, ';');) {
    if (!one.starts_with(kernel + "=")) continue;
    std::vector<std::size_t> bytes;
    std::istringstream list(one.substr(kernel.size() + 1));
    for (std::string number; std::getline(list, number, ',');) bytes.push_back(std::stoul(number));
    return bytes;
  }
  return {};
}

template <class T>
std::string listed(const T* values, std::size_t count) {
  std::ostringstream text;
  for (std::size_t i = 0; i < count; ++i) text << (i ? "," : "") << values[i];
  return count ? text.str() : "-";
}

int context_tag = 0;
void* current_context = nullptr;
std::uint64_t maps_made = 0;

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return 0;
}
int cuGetErrorName(int code, const char** name) {
  *name = code == 1 ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR";
  return 0;
}
// NVRTC asks a driver that it finds for tables of its own; there are none (CUDA_ERROR_NOT_FOUND).
int cuGetExportTable(const void** table, const void*) {
  *table = nullptr;
  return 500;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return index == 0 ? 0 : 101;
}
int cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, std::size_t(bytes), "a driver that records");
  return 0;
}
int cuDeviceGetAttribute(int* value, int which, int) {
  static const std::map<int, int> h100{{16, 132}, {38, 52428800}, {39, 2048},  {75, 9},
                                       {76, 0},   {82, 65536},    {97, 232448}};
  const auto found = h100.find(which);
  if (found == h100.end()) return 1;
  *value = found->second;
  if (const char* const other = std::getenv("RECORDED_DRIVER_CAPABILITY"); other && which == 75)
    *value = std::atoi(other);
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &context_tag;
  return 0;
}
int cuCtxGetCurrent(void** context) {
  *context = current_context;
  return 0;
}
int cuCtxSetCurrent(void* context) {
  current_context = context;
  return 0;
}
// All memory is that of GPU 0, unless $RECORDED_DRIVER_MEMORY says "host", "unknown", "managed" or "other":
// of GPU 1.
int cuPointerGetAttributes(unsigned count, const int* attributes, void** values, unsigned long long) {
  const char* const told = std::getenv("RECORDED_DRIVER_MEMORY");
  const std::string memory = told ? told : "";
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == 2)
      *static_cast<unsigned*>(values[i]) = memory == "unknown"                       ? 0
                                           : memory == "host" || memory == "managed" ? 1
                                                                                     : 2;
    if (attributes[i] == 8) *static_cast<unsigned*>(values[i]) = memory == "managed";
    if (attributes[i] == 9) *static_cast<int*>(values[i]) = memory == "other";
  }
  return 0;
}
int cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}
int cuCtxSynchronize() {
  return 0;
}

// An old driver if $RECORDED_DRIVER_IS_OLD is set, which refuses all code; a capture of each stream if
// $RECORDED_DRIVER_CAPTURES.
int cuDriverGetVersion(int* version) {
  *version = std::getenv("RECORDED_DRIVER_IS_OLD") ? 12000 : 13000;
  return 0;
}
int cuStreamIsCapturing(void*, int* status) {
  *status = std::getenv("RECORDED_DRIVER_CAPTURES") != nullptr;
  return 0;
}

int cuModuleLoadData(void** module, const void* image) {
  if (std::getenv("RECORDED_DRIVER_IS_OLD")) return 222;
  if (std::memcmp(image,
                  "\x7f"
                  "ELF",
                  4) != 0)
    return 200;
  *module = const_cast<void*>(image);
  return 0;
}
int cuModuleUnload(void*) {
  return 0;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  *function = new Function{name};
  return 0;
}
int cuFuncSetAttribute(void* function, int which, int value) {
  auto* const f = static_cast<Function*>(function);
  if (which == 8) f->max_dynamic_shared = value;
  if (which == 14) f->nonportable_cluster = value;
  return which == 8 || which == 14 ? 0 : 1;
}

int cuTensorMapEncodeTiled(std::uint64_t* map, int type, std::uint32_t rank, void* address,
                           const std::uint64_t* sizes, const std::uint64_t* strides, const std::uint32_t* box,
                           const std::uint32_t* steps, int interleave, int swizzle, int promotion, int fill) {
  map[0] = ++maps_made;
  std::ostringstream line;
  line << "map " << maps_made << " " << type << " " << rank << " "
       << reinterpret_cast<std::uintptr_t>(address) << " " << listed(sizes, rank) << " "
       << listed(strides, rank - 1) << " " << listed(box, rank) << " " << listed(steps, rank) << " "
       << interleave << " " << swizzle << " " << promotion << " " << fill;
  write(line.str());
  return 0;
}

int cuLaunchKernelEx(const Config* config, void* function, void** parameters, void**) {
  const auto& f = *static_cast<Function*>(function);
  unsigned cluster[3] = {1, 1, 1};
  int cooperative = 0, programmatic = 0;
  for (unsigned i = 0; i < config->count; ++i) {
    const Attribute& a = config->attributes[i];
    if (a.id == 4) std::memcpy(cluster, a.value, sizeof(cluster));
    if (a.id == 2) std::memcpy(&cooperative, a.value, sizeof(int));
    if (a.id == 6) std::memcpy(&programmatic, a.value, sizeof(int));
  }
  std::ostringstream line;
  line << "launch " << f.name << " " << listed(config->grid, 3) << " " << listed(config->block, 3) << " "
       << listed(cluster, 3) << " " << config->shared << " " << cooperative << " " << programmatic << " "
       << f.max_dynamic_shared << " " << f.nonportable_cluster;
  const std::vector<std::size_t> bytes = argument_bytes(f.name);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    line << " ";
    // For a tensor map, its number.
    for (std::size_t b = 0; b < (bytes[i] > 8 ? 8 : bytes[i]); ++b) {
      char hex[3];
      std::snprintf(hex, sizeof(hex), "%02x", static_cast<unsigned char*>(parameters[i])[b]);
      line << hex;
    }
  }
  write(line.str());
  return 0;
}

int cuMemAlloc_v2(unsigned long long* address, std::size_t bytes) {
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  *address = reinterpret_cast<unsigned long long>(memory);
  write("alloc " + std::to_string(*address) + " " + std::to_string(bytes));
  return memory ? 0 : 2;
}
int cuMemFree_v2(unsigned long long address) {
  std::free(reinterpret_cast<void*>(address));
  return 0;
}
int cuMemsetD8Async(unsigned long long address, unsigned char value, std::size_t bytes, void*) {
  std::memset(reinterpret_cast<void*>(address), value, bytes);
  write("set " + std::to_string(address) + " " + std::to_string(value) + " " + std::to_string(bytes));
  return 0;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t bytes) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
int cuEventCreate(void** event, unsigned) {
  *event = &context_tag;
  return 0;
}
int cuEventRecord(void*, void*) {
  return 0;
}
int cuEventElapsedTime(float* ms, void*, void*) {
  *ms = 1.0f;
  return 0;
}
}
