// SPDX-License-Identifier: Apache-2.0
// matmul and transpose by CLBlast, with the parameters that it was tuned to for the device, or its defaults.
// Only where OpenCL's first device is the processor: the tensors lie in host memory, and CLBlast computes in
// it.
#define CL_TARGET_OPENCL_VERSION 120
#include <clblast_c.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <vector>

#include "evaluators/contenders/libraries/answers.hpp"
#include "evaluators/contenders/libraries/vendor.hpp"

namespace {

using namespace cultivar;
using contender::integer;
using contender::place;

struct OpenCl {
  decltype(&clGetPlatformIDs) GetPlatformIDs = nullptr;
  decltype(&clGetDeviceIDs) GetDeviceIDs = nullptr;
  decltype(&clGetDeviceInfo) GetDeviceInfo = nullptr;
  decltype(&clCreateContext) CreateContext = nullptr;
  decltype(&clCreateCommandQueue) CreateCommandQueue = nullptr;
  decltype(&clCreateBuffer) CreateBuffer = nullptr;
  decltype(&clReleaseMemObject) ReleaseMemObject = nullptr;
  decltype(&clFinish) Finish = nullptr;
};
struct Blas {
  decltype(&CLBlastSgemm) Sgemm = nullptr;
  decltype(&CLBlastDgemm) Dgemm = nullptr;
  decltype(&CLBlastSomatcopy) Somatcopy = nullptr;
  std::string version;
};

const OpenCl& opencl() {
  static const OpenCl loaded = [] {
    void* const library = vendor::open("libOpenCL.so.1", "apt-get install ocl-icd-libopencl1");
    OpenCl o;
    vendor::find(library, o.GetPlatformIDs, "clGetPlatformIDs");
    vendor::find(library, o.GetDeviceIDs, "clGetDeviceIDs");
    vendor::find(library, o.GetDeviceInfo, "clGetDeviceInfo");
    vendor::find(library, o.CreateContext, "clCreateContext");
    vendor::find(library, o.CreateCommandQueue, "clCreateCommandQueue");
    vendor::find(library, o.CreateBuffer, "clCreateBuffer");
    vendor::find(library, o.ReleaseMemObject, "clReleaseMemObject");
    vendor::find(library, o.Finish, "clFinish");
    return o;
  }();
  return loaded;
}

const Blas& blas() {
  static const Blas loaded = [] {
    void* const library = vendor::open("libclblast.so.1", "apt-get install libclblast1");
    Blas b;
    vendor::find(library, b.Sgemm, "CLBlastSgemm");
    vendor::find(library, b.Dgemm, "CLBlastDgemm");
    vendor::find(library, b.Somatcopy, "CLBlastSomatcopy");
    // The library does not tell its version, but its file's name does: libclblast.so.1.5.2.
    Dl_info info{};
    if (::dladdr(reinterpret_cast<void*>(b.Sgemm), &info) != 0 && info.dli_fname != nullptr) {
      std::error_code ignored;
      const std::string file = std::filesystem::canonical(info.dli_fname, ignored).filename().string();
      const auto so = file.find(".so.");
      b.version = so == std::string::npos ? file : file.substr(so + 4);
    }
    return b;
  }();
  return loaded;
}

void must(cl_int code, const char* call) {
  if (code != CL_SUCCESS)
    throw std::runtime_error(std::string(call) + ": OpenCL error " + std::to_string(code));
}
void must_blas(CLBlastStatusCode code, const char* call) {
  if (code == CLBlastSuccess) return;
  const std::string words = std::string(call) + ": CLBlast status " + std::to_string(static_cast<int>(code));
  if (code == CLBlastNoDoublePrecision) throw contender::Unsupported(words);
  throw std::runtime_error(words);
}

// The processor with a queue, for the life of the process.
struct Processor {
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
};

const Processor& processor(const cultivar_contender_workload& w) {
  static const Processor opened = [&] {
    // PoCL counts cores itself, and keeps what it compiles in the user's home, unless it is told otherwise.
    ::setenv("POCL_MAX_PTHREAD_COUNT", std::to_string(w.threads).c_str(), 0);
    if (const std::string cache = contender::text(w, "cache"); !cache.empty())
      ::setenv("POCL_CACHE_DIR", (cache + "/clblast").c_str(), 0);
    const OpenCl& cl = opencl();
    cl_uint count = 0;
    if (cl.GetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0)
      throw contender::Unusable("OpenCL has no platform here; apt-get install pocl-opencl-icd");
    std::vector<cl_platform_id> platforms(count);
    must(cl.GetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
    for (const cl_platform_id platform : platforms) {
      cl_device_id device = nullptr;
      if (cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, nullptr) != CL_SUCCESS) continue;
      Processor found;
      cl_int code = 0;
      found.context = cl.CreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
      must(code, "clCreateContext");
      found.queue = cl.CreateCommandQueue(found.context, device, 0, &code);
      must(code, "clCreateCommandQueue");
      return found;
    }
    throw contender::Unusable("no OpenCL device is a processor");
  }();
  return opened;
}

// Buffers of the tensors where they lie. Launches use few places, so they are made once for each.
class Places {
 public:
  explicit Places(const Processor& where) : where_(where) {}
  ~Places() {
    for (const auto& [address, memory] : made_) opencl().ReleaseMemObject(memory);
  }
  Places(const Places&) = delete;

  cl_mem at(void* data, std::size_t bytes) {
    cl_mem& memory = made_[data];
    if (memory == nullptr) {
      cl_int code = 0;
      memory =
          opencl().CreateBuffer(where_.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, data, &code);
      must(code, "clCreateBuffer");
    }
    return memory;
  }

 private:
  const Processor& where_;
  std::map<void*, cl_mem> made_;
};

class Work {
 public:
  explicit Work(const cultivar_contender_workload& w) : processor_(processor(w)), places_(processor_) {
    const std::string dtype = w.dtype;
    doubles_ = dtype == "f64";
    if (!doubles_ && dtype != "f32")
      throw contender::Unsupported("clblast computes f32 and f64 here, not " + dtype);
    const std::string task = contender::text(w, "task");
    product_ = task == "matmul";
    if (!product_ && task != "transpose")
      throw contender::Unusable("clblast computes matmul and transpose here, not " + task);
    if (!product_ && doubles_) throw contender::Unsupported("clblast transposes f32 here, not f64");
    std::vector<void*> data;
    for (std::uint32_t i = 0; i < w.tensor_count; ++i) {
      std::size_t bytes = doubles_ ? 8 : 4;
      for (std::int32_t d = 0; d < w.tensors[i].rank; ++d)
        bytes *= static_cast<std::size_t>(w.tensors[i].extents[d]);
      bytes_.push_back(bytes);
      data.push_back(w.tensors[i].data);
    }
    const auto size = [&](const char* name) { return static_cast<std::size_t>(integer(w, name)); };
    if (product_) {
      first_ = place(w, "a"), second_ = place(w, "b"), result_ = place(w, "c");
      m_ = size("M"), n_ = size("N"), k_ = size("K");
    } else {
      first_ = place(w, "x"), result_ = place(w, "y");
      m_ = size("R"), n_ = size("C"), batch_ = size("B");
    }
    launch(data.data(), nullptr);  // compiles CLBlast's kernels
  }

  void launch(void* const* data, void*) {
    cl_command_queue queue = processor_.queue;
    const cl_mem result = places_.at(data[result_], bytes_[result_]),
                 first = places_.at(data[first_], bytes_[first_]);
    if (product_) {
      const cl_mem second = places_.at(data[second_], bytes_[second_]);
      if (doubles_)
        must_blas(blas().Dgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, m_, n_, k_, 1.0,
                               first, 0, k_, second, 0, n_, 0.0, result, 0, n_, &queue, nullptr),
                  "CLBlastDgemm");
      else
        must_blas(blas().Sgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, m_, n_, k_,
                               1.0F, first, 0, k_, second, 0, n_, 0.0F, result, 0, n_, &queue, nullptr),
                  "CLBlastSgemm");
    } else {
      for (std::size_t b = 0; b < batch_; ++b)
        must_blas(blas().Somatcopy(CLBlastLayoutRowMajor, CLBlastTransposeYes, m_, n_, 1.0F, first,
                                   b * m_ * n_, n_, result, b * m_ * n_, m_, &queue, nullptr),
                  "CLBlastSomatcopy");
    }
    must(opencl().Finish(queue), "clFinish");
  }

 private:
  const Processor& processor_;
  Places places_;
  bool doubles_ = false, product_ = false;
  std::vector<std::size_t> bytes_;
  std::size_t first_ = 0, second_ = 0, result_ = 0, m_ = 0, n_ = 0, k_ = 0, batch_ = 1;
};

}  // namespace

extern "C" const cultivar_contender_description* cultivar_contender_describe() {
  static std::string version;
  static cultivar_contender_description told{CULTIVAR_CONTENDER_ABI, "clblast", "", "*", "opencl"};
  contender::answer([&] {
    opencl();
    version = "CLBlast " + blas().version;
  });
  told.version = version.c_str();
  return &told;
}

CULTIVAR_CONTENDER_CALLS(Work)
