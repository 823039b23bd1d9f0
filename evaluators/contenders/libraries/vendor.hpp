// SPDX-License-Identifier: Apache-2.0
// Opens a vendor's library at run time: by name, as the system finds it, or in the usual toolkit locations.
// Code that includes this header does not link to vendor libraries, so it loads without them and can report
// what is missing.
#pragma once

#include <dlfcn.h>

#include <cctype>
#include <stdexcept>
#include <string>
#include <vector>

namespace cultivar::vendor {

inline std::string own_folder() {
  Dl_info info{};
  static const int here = 0;
  if (::dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string file = info.dli_fname;
  const auto slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

// Throws std::runtime_error with `remedy` in the message.
inline void* open(const std::string& name, const std::string& remedy) {
  std::vector<std::string> folders{""};
  for (const char* relative : {"/", "/../cuda/lib/", "/../cuda/lib64/"})
    folders.push_back(own_folder() + relative);
#ifdef CULTIVAR_CUDA_LIBRARY_FOLDER
  folders.push_back(CULTIVAR_CUDA_LIBRARY_FOLDER "/");
#endif
  for (const char* folder : {"/usr/local/cuda/lib64/", "/usr/local/cuda/lib/", "/opt/cuda/lib64/",
                             "/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/", "/usr/lib64/"})
    folders.emplace_back(folder);
  std::string first;
  for (const std::string& folder : folders) {
    if (void* library = ::dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* why = ::dlerror();
    if (first.empty() && why != nullptr) first = why;
  }
  throw std::runtime_error(name + " does not load: " + remedy + " (" + first + ")");
}

template <class Function>
void find(void* library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("the library does not export ") + name);
}

// The functions of libcuda.so.1 in use, declared without CUDA's headers; the worker has loaded it and made a
// context current.
struct Driver {
  int (*MemAlloc)(unsigned long long*, std::size_t) = nullptr;
  int (*MemFree)(unsigned long long) = nullptr;
  int (*EventCreate)(void**, unsigned) = nullptr;
  int (*EventDestroy)(void*) = nullptr;
  int (*EventRecord)(void*, void* stream) = nullptr;
  int (*EventSynchronize)(void*) = nullptr;
  int (*EventElapsedTime)(float*, void*, void*) = nullptr;
  int (*MemsetAsync)(unsigned long long, unsigned char, std::size_t, void* stream) = nullptr;
  int (*CtxGetDevice)(int*) = nullptr;
  int (*DeviceGetName)(char*, int, int) = nullptr;

  static const Driver& instance() {
    static const Driver loaded = [] {
      void* const library = open("libcuda.so.1", "install NVIDIA's driver");
      Driver d;
      find(library, d.MemAlloc, "cuMemAlloc_v2");
      find(library, d.MemFree, "cuMemFree_v2");
      find(library, d.EventCreate, "cuEventCreate");
      find(library, d.EventDestroy, "cuEventDestroy_v2");
      find(library, d.EventRecord, "cuEventRecord");
      find(library, d.EventSynchronize, "cuEventSynchronize");
      find(library, d.EventElapsedTime, "cuEventElapsedTime");
      find(library, d.MemsetAsync, "cuMemsetD8Async");
      find(library, d.CtxGetDevice, "cuCtxGetDevice");
      find(library, d.DeviceGetName, "cuDeviceGetName");
      return d;
    }();
    return loaded;
  }
};

// The number of the current GPU.
inline int gpu_ordinal() {
  int device = 0;
  if (Driver::instance().CtxGetDevice(&device) != 0)
    throw std::runtime_error("the worker has no current GPU");
  return device;
}

// Its name, as part of a file name.
inline std::string gpu_name() {
  char name[128] = "";
  if (Driver::instance().DeviceGetName(name, sizeof name, gpu_ordinal()) != 0)
    throw std::runtime_error("the GPU does not tell its name");
  std::string text = name;
  for (char& letter : text)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return text;
}

// Scratch memory on the device, allocated in prepare and freed in release.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  ~Workspace() {
    if (address_ != 0) Driver::instance().MemFree(address_);
  }
  void allocate(std::size_t bytes) {
    if (bytes > 0 && Driver::instance().MemAlloc(&address_, bytes) != 0)
      throw std::runtime_error("the GPU has too little free memory for the workspace of " +
                               std::to_string(bytes) + " bytes");
  }
  void* data() const { return reinterpret_cast<void*>(address_); }

 private:
  unsigned long long address_ = 0;
};

}  // namespace cultivar::vendor
