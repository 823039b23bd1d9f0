// AttentionForward: Scaled dot-product attention, forward: O = softmax(scale Q K^T + mask) V and the log-sum-exp (natural) of each row; a row that sees no key gives O = 0 and LSE = -inf
// Kernel 'attention_even_sections' (f6efb97d2075), found and exported by Cultivar. Self-contained; needs C++20, Linux and NVIDIA's driver,
// which is loaded at run time (libcuda.so.1), but no CUDA toolkit.
//
//   cultivar_export::AttentionForward kernel;            // uses this thread's CUDA context, or device 0's primary context
//   kernel({.B = ..., .q = ...}, stream);   // pointers to device memory
//
// A call queues its work on `stream` and returns. Streams and memory may come from the CUDA runtime or the driver API.
// An object has one workspace, so its calls must not overlap on the device: use one object per stream, or pass each call
// a workspace. The object's workspace is allocated by the first call of a size, which is not possible while a stream is
// being captured into a graph: call once before the capture, or pass a workspace.
#pragma once

#if __cplusplus < 202002L
#error "this header needs C++20: -std=c++20, or CMake's cxx_std_20"
#endif

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

struct CUstream_st;  // cudaStream_t and CUstream are pointers to it

// The machine code, from cubins.cpp.
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D128_causal1_paired0_drawn1_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D128_causal1_paired0_drawn0_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D128_causal0_paired1_drawn0_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D128_causal1_paired1_drawn1_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D64_causal0_paired1_drawn0_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D64_causal1_paired0_drawn1_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D64_causal1_paired1_drawn1_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D256_causal0_paired1_drawn0_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D256_causal1_paired0_drawn1_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D128_causal0_paired0_drawn0_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D256_causal0_paired0_drawn0_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D64_causal0_paired0_drawn0_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D64_causal1_paired0_drawn0_sm_90a_cubin[];
extern "C" const unsigned char cultivar_cubin_f6efb97d2075_D256_causal1_paired0_drawn0_sm_90a_cubin[];

namespace cultivar_export {
// A namespace for this kernel, so that one program can include headers of several exports. Inline: callers omit it.
inline namespace attention_forward_f6efb97d2075 {

namespace expression {
// By 0 not a number: no condition on it holds, and no size may be one.
inline double divide(double a, double b) { return b == 0 ? std::numeric_limits<double>::quiet_NaN() : a / b; }
inline double ceil_div(double a, double b) { return std::ceil(divide(a, b)); }
inline double floor_div(double a, double b) { return std::floor(divide(a, b)); }
inline double round_up(double a, double b) { return ceil_div(a, b) * b; }
template <class... T>
double min(double a, T... rest) { return std::min({a, double(rest)...}); }
template <class... T>
double max(double a, T... rest) { return std::max({a, double(rest)...}); }
using std::abs, std::ceil, std::floor, std::log2, std::sqrt;
}  // namespace expression

inline std::int64_t whole(double value, const char* what) {
  if (!(value >= 0) || value != std::floor(value))
    throw std::invalid_argument(std::string(what) + " is not a whole number for these sizes");
  return static_cast<std::int64_t>(value);
}

// An integer argument of a kernel, checked against the range of its type.
template <class T>
T integer(double value, const char* what) {
  if (value != std::floor(value) || value < double(std::numeric_limits<T>::min()) ||
      value >= std::ldexp(1.0, std::numeric_limits<T>::digits))
    throw std::invalid_argument(std::string(what) + " would be " + std::to_string(value) +
                                " for these sizes, which its type cannot represent");
  return static_cast<T>(value);
}

// Scalars of 16 bits, rounded to nearest, ties to even.
inline std::uint16_t bf16_bits(double value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(float(value));
  if (!std::isnan(value)) bits += 0x7fff + ((bits >> 16) & 1);
  return std::uint16_t(bits >> 16);
}
inline std::uint16_t f16_bits(double value) {
  const unsigned sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::abs(value);
  if (!(size < 65520.0)) return std::uint16_t(sign | (std::isnan(value) ? 0x7e00 : 0x7c00));
  int exponent = 0;
  std::frexp(size, &exponent);
  const int place = std::max(exponent - 11, -24);  // of the last bit
  return std::uint16_t(sign + (unsigned(place + 24) << 10) + unsigned(std::nearbyint(std::ldexp(size, -place))));
}

// The used part of the driver API, with the driver's names and values.
namespace driver {
struct alignas(128) TensorMap {  // CUtensorMap
  std::uint64_t opaque[16];
};
struct alignas(8) Attribute {  // CUlaunchAttribute
  int id = 0;
  int pad = 0;
  unsigned value[16] = {};
};
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  CUstream_st* stream;
  Attribute* attributes;
  unsigned attribute_count;
};
inline constexpr int cluster_dimension = 4, cooperative = 2, programmatic_serialization = 6;  // CUlaunchAttributeID
inline constexpr int max_dynamic_shared = 8, nonportable_cluster = 14;                        // CUfunction_attribute

struct Api {
  int (*Init)(unsigned);
  int (*GetErrorName)(int, const char**);
  int (*DeviceGet)(int*, int);
  int (*DeviceGetAttribute)(int*, int, int);
  int (*DevicePrimaryCtxRetain)(void**, int);
  int (*CtxGetCurrent)(void**);
  int (*CtxSetCurrent)(void*);
  int (*CtxGetDevice)(int*);
  int (*ModuleLoadData)(void**, const void*);
  int (*ModuleUnload)(void*);
  int (*ModuleGetFunction)(void**, void*, const char*);
  int (*FuncSetAttribute)(void*, int, int);
  int (*LaunchKernelEx)(const LaunchConfig*, void*, void** parameters, void** extra);
  int (*TensorMapEncodeTiled)(TensorMap*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*,
                              const std::uint32_t*, const std::uint32_t*, int, int, int, int);
  int (*MemAlloc)(unsigned long long*, std::size_t);
  int (*MemFree)(unsigned long long);
  int (*MemsetD8Async)(unsigned long long, unsigned char, std::size_t, CUstream_st*);
};

inline void* symbol(const char* name) {
  static void* const library = [] {
    for (const char* file : {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"})
      if (void* found = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return found;
    throw std::runtime_error("NVIDIA's driver (libcuda.so.1) is not installed on this machine");
  }();
  if (void* found = dlsym(library, name)) return found;
  throw std::runtime_error(std::string("the CUDA driver lacks ") + name + ": install a driver for CUDA 12 or newer");
}
template <class F>
void find(F& function, const char* name) {
  function = reinterpret_cast<F>(symbol(name));
}
inline const Api& api() {
  static const Api loaded = [] {
    Api a{};
    find(a.Init, "cuInit");
    find(a.GetErrorName, "cuGetErrorName");
    find(a.DeviceGet, "cuDeviceGet");
    find(a.DeviceGetAttribute, "cuDeviceGetAttribute");
    find(a.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    find(a.CtxGetCurrent, "cuCtxGetCurrent");
    find(a.CtxSetCurrent, "cuCtxSetCurrent");
    find(a.CtxGetDevice, "cuCtxGetDevice");
    find(a.ModuleLoadData, "cuModuleLoadData");
    find(a.ModuleUnload, "cuModuleUnload");
    find(a.ModuleGetFunction, "cuModuleGetFunction");
    find(a.FuncSetAttribute, "cuFuncSetAttribute");
    find(a.LaunchKernelEx, "cuLaunchKernelEx");
    find(a.TensorMapEncodeTiled, "cuTensorMapEncodeTiled");
    find(a.MemAlloc, "cuMemAlloc_v2");
    find(a.MemFree, "cuMemFree_v2");
    find(a.MemsetD8Async, "cuMemsetD8Async");
    return a;
  }();
  return loaded;
}
inline void must(int result, const char* what, const char* of = "") {
  if (result == 0) return;
  const char* name = nullptr;
  api().GetErrorName(result, &name);
  throw std::runtime_error(std::string(what) + of + ": " + (name ? name : "CUDA error " + std::to_string(result)));
}
}  // namespace driver

// Sizes are in elements; fields that are not set have their defaults. Tensors are contiguous, outermost dimension first,
// in device memory, aligned to 64 bytes.
struct AttentionForwardArguments {
  std::int64_t B = 0;  // sequences in the batch
  std::int64_t H = 0;  // query heads
  std::optional<std::int64_t> H_kv = std::nullopt;  // key and value heads; query head h reads head h / (H / H_kv); default: H
  std::int64_t S_q = 0;  // queries in a sequence
  std::optional<std::int64_t> S_kv = std::nullopt;  // keys in a sequence; default: S_q
  std::int64_t D = 0;  // elements in a head
  bool causal = false;  // query i sees the keys j <= i + S_kv - S_q (bottom-right aligned)
  std::optional<float> scale = std::nullopt;  // factor applied to the logits; default: 1 / sqrt(D)
  std::int32_t window = 0;  // 0: off; otherwise query i sees only the keys j with |i + S_kv - S_q - j| < window: with the mask the last `window` keys, else as many on both sides
  float softcap = 0.0;  // 0: off; otherwise the logit x becomes softcap * tanh(x / softcap), before the mask
  const void* q = nullptr;  // in [B, S_q, H, D], bf16
  const void* k = nullptr;  // in [B, S_kv, H_kv, D], bf16
  const void* v = nullptr;  // in [B, S_kv, H_kv, D], bf16
  void* o = nullptr;  // out [B, S_q, H, D], bf16
  float* lse = nullptr;  // out [B, H, S_q], f32
};

class AttentionForward {
 public:
  // `device`: its primary context is used if this thread has no context. Throws std::runtime_error when there is no
  // driver, no such device, or no machine code for the device.
  explicit AttentionForward(int device = 0) {
    const auto& api = driver::api();
    driver::must(api.Init(0), "starting the CUDA driver");
    void* context = nullptr;
    driver::must(api.CtxGetCurrent(&context), "asking for the CUDA context");
    if (context == nullptr) {
      int handle = 0;
      driver::must(api.DeviceGet(&handle, device), "finding the GPU");
      driver::must(api.DevicePrimaryCtxRetain(&context, handle), "opening the GPU");
      driver::must(api.CtxSetCurrent(context), "opening the GPU");
    }
    driver::must(api.CtxGetDevice(&device_), "asking for the GPU");
    compute_capability_ = attribute(75) * 10 + attribute(76);
    num_sms_ = attribute(16);
    l2_bytes_ = attribute(38);
    threads_max_ = attribute(39);
    registers_max_ = attribute(82);
    smem_max_ = attribute(97);
    for (std::size_t s = 0; s < modules_.size(); ++s)
      if (code(s) == nullptr)
        throw std::runtime_error("attention_forward: built for sm_90a, but this GPU is sm_" +
                                 std::to_string(compute_capability_) + ": export the kernel for it with --arch");
  }
  ~AttentionForward() {
    for (void* module : modules_)
      if (module) driver::api().ModuleUnload(module);
    if (workspace_) driver::api().MemFree(workspace_);
  }
  AttentionForward(const AttentionForward&) = delete;
  AttentionForward& operator=(const AttentionForward&) = delete;

  // Queues the computation. `workspace`: device memory of the size that prepare() returns, aligned to 256 bytes, not used
  // by others until the work is done; null: this object's own. Throws std::invalid_argument for a shape that this kernel
  // was not built for and for a null tensor, std::runtime_error with the driver's message for driver errors.
  void operator()(const AttentionForwardArguments& arguments, CUstream_st* stream = nullptr, void* workspace = nullptr) {
    if (arguments.q == nullptr) throw std::invalid_argument("attention_forward: the tensor q is null");
    if (reinterpret_cast<std::uintptr_t>(arguments.q) % 64 != 0)
      throw std::invalid_argument("attention_forward: the tensor q must start at a multiple of 64 bytes");
    if (arguments.k == nullptr) throw std::invalid_argument("attention_forward: the tensor k is null");
    if (reinterpret_cast<std::uintptr_t>(arguments.k) % 64 != 0)
      throw std::invalid_argument("attention_forward: the tensor k must start at a multiple of 64 bytes");
    if (arguments.v == nullptr) throw std::invalid_argument("attention_forward: the tensor v is null");
    if (reinterpret_cast<std::uintptr_t>(arguments.v) % 64 != 0)
      throw std::invalid_argument("attention_forward: the tensor v must start at a multiple of 64 bytes");
    if (arguments.o == nullptr) throw std::invalid_argument("attention_forward: the tensor o is null");
    if (reinterpret_cast<std::uintptr_t>(arguments.o) % 64 != 0)
      throw std::invalid_argument("attention_forward: the tensor o must start at a multiple of 64 bytes");
    if (arguments.lse == nullptr) throw std::invalid_argument("attention_forward: the tensor lse is null");
    if (reinterpret_cast<std::uintptr_t>(arguments.lse) % 64 != 0)
      throw std::invalid_argument("attention_forward: the tensor lse must start at a multiple of 64 bytes");
    call(arguments, stream, reinterpret_cast<unsigned long long>(workspace), nullptr);
  }
  // Loads what a call with these sizes needs, and returns the size of its workspace in bytes. Throws like a call, but needs
  // no tensors.
  std::size_t prepare(const AttentionForwardArguments& arguments) {
    std::size_t bytes = 0;
    call(arguments, nullptr, 0, &bytes);
    return bytes;
  }

  // Whether this kernel was built for these sizes. The tensors may be null.
  bool accepts(const AttentionForwardArguments& arguments) const {
    [[maybe_unused]] const double n_f64 = 0.0;
    [[maybe_unused]] const double n_f32 = 1.0;
    [[maybe_unused]] const double n_f16 = 2.0;
    [[maybe_unused]] const double n_bf16 = 3.0;
    [[maybe_unused]] const double n_i64 = 4.0;
    [[maybe_unused]] const double n_i32 = 5.0;
    [[maybe_unused]] const double n_i16 = 6.0;
    [[maybe_unused]] const double n_i8 = 7.0;
    [[maybe_unused]] const double n_u64 = 8.0;
    [[maybe_unused]] const double n_u32 = 9.0;
    [[maybe_unused]] const double n_u16 = 10.0;
    [[maybe_unused]] const double n_u8 = 11.0;
    [[maybe_unused]] const double n_e4m3 = 12.0;
    [[maybe_unused]] const double n_e5m2 = 13.0;
    [[maybe_unused]] const double n_dtype = n_bf16;
    [[maybe_unused]] const double n_element_bytes = 2.0;
    [[maybe_unused]] const double n_B = double(arguments.B);
    [[maybe_unused]] const double n_H = double(arguments.H);
    [[maybe_unused]] const double n_H_kv = arguments.H_kv ? double(*arguments.H_kv) : n_H;
    [[maybe_unused]] const double n_S_q = double(arguments.S_q);
    [[maybe_unused]] const double n_S_kv = arguments.S_kv ? double(*arguments.S_kv) : n_S_q;
    [[maybe_unused]] const double n_D = double(arguments.D);
    [[maybe_unused]] const double n_causal = double(arguments.causal);
    [[maybe_unused]] const double n_scale = arguments.scale ? double(*arguments.scale) : expression::divide(1.0, expression::sqrt(n_D));
    [[maybe_unused]] const double n_window = double(arguments.window);
    [[maybe_unused]] const double n_softcap = double(arguments.softcap);
    [[maybe_unused]] const double n_compute_capability = compute_capability_;
    [[maybe_unused]] const double n_l2_bytes = l2_bytes_;
    [[maybe_unused]] const double n_num_sms = num_sms_;
    [[maybe_unused]] const double n_registers_max = registers_max_;
    [[maybe_unused]] const double n_smem_max = smem_max_;
    [[maybe_unused]] const double n_threads_max = threads_max_;
    [[maybe_unused]] const double n_BLOCK_N = 128.0;
    [[maybe_unused]] const double n_BLOCK_N_CAUSAL = 128.0;
    [[maybe_unused]] const double n_BLOCK_N_WIDE = 64.0;
    [[maybe_unused]] const double n_DEALT = 4.0;
    [[maybe_unused]] const double n_EARLY = 1.0;
    [[maybe_unused]] const double n_HEAVY = 8.0;
    [[maybe_unused]] const double n_KEY_STAGES = 2.0;
    [[maybe_unused]] const double n_KEY_STAGES_CAUSAL = 3.0;
    [[maybe_unused]] const double n_PAIRED_FROM = 2048.0;
    [[maybe_unused]] const double n_PAIRS = 1.0;
    [[maybe_unused]] const double n_PAIRS_CAUSAL = 1.0;
    [[maybe_unused]] const double n_PAIRS_WIDE = 1.0;
    [[maybe_unused]] const double n_PEAK = 1.0;
    [[maybe_unused]] const double n_PLACES = 2.0;
    [[maybe_unused]] const double n_PLACES_WIDE = 1.0;
    [[maybe_unused]] const double n_QUERIES = 2.0;
    [[maybe_unused]] const double n_QUERIES_ALONE = 0.0;
    [[maybe_unused]] const double n_QUERIES_ALONE_half = 1.0;
    [[maybe_unused]] const double n_QUERIES_ALONE_registers = 2.0;
    [[maybe_unused]] const double n_QUERIES_ALONE_shared = 0.0;
    [[maybe_unused]] const double n_QUERIES_CAUSAL = 2.0;
    [[maybe_unused]] const double n_QUERIES_CAUSAL_half = 1.0;
    [[maybe_unused]] const double n_QUERIES_CAUSAL_registers = 2.0;
    [[maybe_unused]] const double n_QUERIES_CAUSAL_shared = 0.0;
    [[maybe_unused]] const double n_QUERIES_WIDE = 1.0;
    [[maybe_unused]] const double n_QUERIES_WIDE_half = 1.0;
    [[maybe_unused]] const double n_QUERIES_WIDE_shared = 0.0;
    [[maybe_unused]] const double n_QUERIES_half = 1.0;
    [[maybe_unused]] const double n_QUERIES_registers = 2.0;
    [[maybe_unused]] const double n_QUERIES_shared = 0.0;
    [[maybe_unused]] const double n_SCHEDULE = 0.0;
    [[maybe_unused]] const double n_SCHEDULE_CAUSAL = 1.0;
    [[maybe_unused]] const double n_SCHEDULE_CAUSAL_strided = 0.0;
    [[maybe_unused]] const double n_SCHEDULE_CAUSAL_ticket = 1.0;
    [[maybe_unused]] const double n_SCHEDULE_strided = 0.0;
    [[maybe_unused]] const double n_SCHEDULE_ticket = 1.0;
    [[maybe_unused]] const double n_SECTION_MB = 32.0;
    [[maybe_unused]] const double n_SPLIT = 8.0;
    [[maybe_unused]] const double n_TURNS = 0.0;
    [[maybe_unused]] const double n_TURNS_ALONE = 1.0;
    [[maybe_unused]] const double n_TURNS_CAUSAL = 0.0;
    [[maybe_unused]] const double n_VALUE_STAGES = 3.0;
    [[maybe_unused]] const double n_VALUE_STAGES_CAUSAL = 2.0;
    [[maybe_unused]] const double n_WATCH = 1.0;
    [[maybe_unused]] const double n_WATCH_all = 1.0;
    [[maybe_unused]] const double n_WATCH_halves = 0.0;
    [[maybe_unused]] const double n_window_span = ((double(n_window == 0.0)) != 0.0 ? n_S_kv : expression::min(n_window, n_S_kv));
    [[maybe_unused]] const double n_window_rows = expression::min(n_S_q, n_S_kv);
    [[maybe_unused]] const double n_window_before = ((n_window_rows * n_window_span) - expression::divide(std::pow(expression::max(0.0, ((n_window_span - n_S_kv) + n_window_rows)), 2.0), 2.0));
    [[maybe_unused]] const double n_pairs = ((n_causal) != 0.0 ? n_window_before : ((double(n_window == 0.0)) != 0.0 ? (n_S_q * n_S_kv) : ((n_window_before + (n_window_rows * expression::min(n_window, n_window_rows))) - expression::divide(std::pow(expression::min(n_window, n_window_rows), 2.0), 2.0))));
    [[maybe_unused]] const double n_keys = ((double(n_D == 256.0)) != 0.0 ? n_BLOCK_N_WIDE : ((n_causal) != 0.0 ? n_BLOCK_N_CAUSAL : n_BLOCK_N));
    [[maybe_unused]] const double n_stages = ((double(n_D == 256.0)) != 0.0 ? 4.0 : ((n_causal) != 0.0 ? (n_KEY_STAGES_CAUSAL + n_VALUE_STAGES_CAUSAL) : (n_KEY_STAGES + n_VALUE_STAGES)));
    [[maybe_unused]] const double n_m_blocks = expression::ceil_div(n_S_q, 128.0);
    [[maybe_unused]] const double n_paired = ((n_causal) != 0.0 ? double((double((double((double((double((double((n_PAIRS_CAUSAL != 0.0) && (double(n_keys == 128.0) != 0.0)) != 0.0) && (double(n_D != 256.0) != 0.0)) != 0.0) && (double(std::fmod(n_S_q, 256.0) == 0.0) != 0.0)) != 0.0) && (double(n_S_q >= 4096.0) != 0.0)) != 0.0) && (double(n_S_q <= n_S_kv) != 0.0)) != 0.0) && (double(((n_B * n_H) * n_m_blocks) >= n_PAIRED_FROM) != 0.0)) : double((((double(n_D == 256.0)) != 0.0 ? n_PAIRS_WIDE : n_PAIRS) != 0.0) && (double(std::fmod(n_m_blocks, 2.0) == 0.0) != 0.0)));
    [[maybe_unused]] const double n_from = ((double(n_D == 256.0)) != 0.0 ? n_QUERIES_WIDE : ((double(n_causal == 0.0)) != 0.0 ? n_QUERIES : ((n_paired) != 0.0 ? n_QUERIES_CAUSAL : n_QUERIES_ALONE)));
    [[maybe_unused]] const double n_held = ((double(n_from == n_QUERIES_registers)) != 0.0 ? expression::divide(n_D, 4.0) : ((double(n_from == n_QUERIES_half)) != 0.0 ? expression::divide(n_D, 8.0) : 0.0));
    [[maybe_unused]] const double n_places = ((double(n_D == 256.0)) != 0.0 ? n_PLACES_WIDE : ((double(n_held == expression::divide(n_D, 4.0))) != 0.0 ? n_PLACES : 2.0));
    [[maybe_unused]] const double n_smem = (((((128.0 * n_places) + (n_stages * n_keys)) * n_D) * 2.0) + 1536.0);
    [[maybe_unused]] const double n_wide = (1.0 + n_paired);
    [[maybe_unused]] const double n_m_tiles = expression::divide(n_m_blocks, n_wide);
    [[maybe_unused]] const double n_tiles = ((n_B * n_H) * n_m_tiles);
    [[maybe_unused]] const double n_blocks = expression::floor(expression::divide(n_num_sms, n_wide));
    [[maybe_unused]] const double n_left = std::fmod(n_tiles, n_blocks);
    [[maybe_unused]] const double n_parted = ((double((double((double(n_causal == 0.0) != 0.0) && (double((n_left * n_SPLIT) <= n_blocks) != 0.0)) != 0.0) && (double(n_SPLIT <= expression::ceil_div(n_S_kv, n_keys)) != 0.0))) != 0.0 ? n_left : 0.0);
    [[maybe_unused]] const double n_whole = ((double(n_SPLIT == 1.0)) != 0.0 ? n_tiles : (n_tiles - n_parted));
    [[maybe_unused]] const double n_units = (n_whole + ((n_tiles - n_whole) * n_SPLIT));
    [[maybe_unused]] const double n_group = expression::divide(n_H, n_H_kv);
    [[maybe_unused]] const double n_fitting = (expression::floor(expression::divide((n_SECTION_MB * 1048576.0), ((4.0 * n_S_kv) * n_D))) * n_group);
    [[maybe_unused]] const double n_sections = ((n_causal) != 0.0 ? expression::ceil_div((n_B * n_H), expression::max(1.0, expression::min(n_fitting, (n_B * n_H)))) : (n_B * n_H));
    [[maybe_unused]] const double n_section = expression::ceil_div((n_B * n_H), n_sections);
    [[maybe_unused]] const double n_drawn = ((n_causal) != 0.0 ? double((double(n_SCHEDULE_CAUSAL == n_SCHEDULE_CAUSAL_ticket) != 0.0) && (double((double(n_sections > 1.0) != 0.0) || (double((n_tiles * n_wide) > (n_DEALT * 128.0)) != 0.0)) != 0.0)) : double(n_SCHEDULE == n_SCHEDULE_ticket));
    if (!(n_B >= 1.0 && n_B <= 2147483647.0)) return false;
    if (!(n_H >= 1.0 && n_H <= 2147483647.0)) return false;
    if (!(n_H_kv >= 1.0 && n_H_kv <= 2147483647.0)) return false;
    if (!(n_S_q >= 1.0 && n_S_q <= 2147483647.0)) return false;
    if (!(n_S_kv >= 1.0 && n_S_kv <= 2147483647.0)) return false;
    if (!(n_D >= 1.0 && n_D <= 2147483647.0)) return false;
    if ((double(std::fmod(n_H, n_H_kv) == 0.0)) == 0.0) return false;
    if ((double((double((double((double((double(n_dtype != n_f32) != 0.0) && (double((double((double(n_D == 64.0) != 0.0) || (double(n_D == 128.0) != 0.0)) != 0.0) || (double(n_D == 256.0) != 0.0)) != 0.0)) != 0.0) && (double(n_scale > 0.0) != 0.0)) != 0.0) && (double(n_window == 0.0) != 0.0)) != 0.0) && (double(n_softcap == 0.0) != 0.0))) == 0.0) return false;
    if ((double(n_smem <= n_smem_max)) == 0.0) return false;
    if ((double((((expression::divide((3.0 * n_keys), 4.0) + expression::divide(n_D, 2.0)) + 24.0) + n_held) <= 240.0)) == 0.0) return false;
    return (n_D == 128.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 1.0) ||
           (n_D == 128.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 0.0) ||
           (n_D == 128.0 && n_causal == 0.0 && n_paired == 1.0 && n_drawn == 0.0) ||
           (n_D == 128.0 && n_causal == 1.0 && n_paired == 1.0 && n_drawn == 1.0) ||
           (n_D == 64.0 && n_causal == 0.0 && n_paired == 1.0 && n_drawn == 0.0) ||
           (n_D == 64.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 1.0) ||
           (n_D == 64.0 && n_causal == 1.0 && n_paired == 1.0 && n_drawn == 1.0) ||
           (n_D == 256.0 && n_causal == 0.0 && n_paired == 1.0 && n_drawn == 0.0) ||
           (n_D == 256.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 1.0) ||
           (n_D == 128.0 && n_causal == 0.0 && n_paired == 0.0 && n_drawn == 0.0) ||
           (n_D == 256.0 && n_causal == 0.0 && n_paired == 0.0 && n_drawn == 0.0) ||
           (n_D == 64.0 && n_causal == 0.0 && n_paired == 0.0 && n_drawn == 0.0) ||
           (n_D == 64.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 0.0) ||
           (n_D == 256.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 0.0);
  }

 private:
  void call(const AttentionForwardArguments& arguments, [[maybe_unused]] CUstream_st* stream,
            [[maybe_unused]] unsigned long long given_workspace, std::size_t* prepared_bytes) {
    [[maybe_unused]] const double n_f64 = 0.0;
    [[maybe_unused]] const double n_f32 = 1.0;
    [[maybe_unused]] const double n_f16 = 2.0;
    [[maybe_unused]] const double n_bf16 = 3.0;
    [[maybe_unused]] const double n_i64 = 4.0;
    [[maybe_unused]] const double n_i32 = 5.0;
    [[maybe_unused]] const double n_i16 = 6.0;
    [[maybe_unused]] const double n_i8 = 7.0;
    [[maybe_unused]] const double n_u64 = 8.0;
    [[maybe_unused]] const double n_u32 = 9.0;
    [[maybe_unused]] const double n_u16 = 10.0;
    [[maybe_unused]] const double n_u8 = 11.0;
    [[maybe_unused]] const double n_e4m3 = 12.0;
    [[maybe_unused]] const double n_e5m2 = 13.0;
    [[maybe_unused]] const double n_dtype = n_bf16;
    [[maybe_unused]] const double n_element_bytes = 2.0;
    [[maybe_unused]] const double n_B = double(arguments.B);
    [[maybe_unused]] const double n_H = double(arguments.H);
    [[maybe_unused]] const double n_H_kv = arguments.H_kv ? double(*arguments.H_kv) : n_H;
    [[maybe_unused]] const double n_S_q = double(arguments.S_q);
    [[maybe_unused]] const double n_S_kv = arguments.S_kv ? double(*arguments.S_kv) : n_S_q;
    [[maybe_unused]] const double n_D = double(arguments.D);
    [[maybe_unused]] const double n_causal = double(arguments.causal);
    [[maybe_unused]] const double n_scale = arguments.scale ? double(*arguments.scale) : expression::divide(1.0, expression::sqrt(n_D));
    [[maybe_unused]] const double n_window = double(arguments.window);
    [[maybe_unused]] const double n_softcap = double(arguments.softcap);
    [[maybe_unused]] const double n_compute_capability = compute_capability_;
    [[maybe_unused]] const double n_l2_bytes = l2_bytes_;
    [[maybe_unused]] const double n_num_sms = num_sms_;
    [[maybe_unused]] const double n_registers_max = registers_max_;
    [[maybe_unused]] const double n_smem_max = smem_max_;
    [[maybe_unused]] const double n_threads_max = threads_max_;
    [[maybe_unused]] const double n_BLOCK_N = 128.0;
    [[maybe_unused]] const double n_BLOCK_N_CAUSAL = 128.0;
    [[maybe_unused]] const double n_BLOCK_N_WIDE = 64.0;
    [[maybe_unused]] const double n_DEALT = 4.0;
    [[maybe_unused]] const double n_EARLY = 1.0;
    [[maybe_unused]] const double n_HEAVY = 8.0;
    [[maybe_unused]] const double n_KEY_STAGES = 2.0;
    [[maybe_unused]] const double n_KEY_STAGES_CAUSAL = 3.0;
    [[maybe_unused]] const double n_PAIRED_FROM = 2048.0;
    [[maybe_unused]] const double n_PAIRS = 1.0;
    [[maybe_unused]] const double n_PAIRS_CAUSAL = 1.0;
    [[maybe_unused]] const double n_PAIRS_WIDE = 1.0;
    [[maybe_unused]] const double n_PEAK = 1.0;
    [[maybe_unused]] const double n_PLACES = 2.0;
    [[maybe_unused]] const double n_PLACES_WIDE = 1.0;
    [[maybe_unused]] const double n_QUERIES = 2.0;
    [[maybe_unused]] const double n_QUERIES_ALONE = 0.0;
    [[maybe_unused]] const double n_QUERIES_ALONE_half = 1.0;
    [[maybe_unused]] const double n_QUERIES_ALONE_registers = 2.0;
    [[maybe_unused]] const double n_QUERIES_ALONE_shared = 0.0;
    [[maybe_unused]] const double n_QUERIES_CAUSAL = 2.0;
    [[maybe_unused]] const double n_QUERIES_CAUSAL_half = 1.0;
    [[maybe_unused]] const double n_QUERIES_CAUSAL_registers = 2.0;
    [[maybe_unused]] const double n_QUERIES_CAUSAL_shared = 0.0;
    [[maybe_unused]] const double n_QUERIES_WIDE = 1.0;
    [[maybe_unused]] const double n_QUERIES_WIDE_half = 1.0;
    [[maybe_unused]] const double n_QUERIES_WIDE_shared = 0.0;
    [[maybe_unused]] const double n_QUERIES_half = 1.0;
    [[maybe_unused]] const double n_QUERIES_registers = 2.0;
    [[maybe_unused]] const double n_QUERIES_shared = 0.0;
    [[maybe_unused]] const double n_SCHEDULE = 0.0;
    [[maybe_unused]] const double n_SCHEDULE_CAUSAL = 1.0;
    [[maybe_unused]] const double n_SCHEDULE_CAUSAL_strided = 0.0;
    [[maybe_unused]] const double n_SCHEDULE_CAUSAL_ticket = 1.0;
    [[maybe_unused]] const double n_SCHEDULE_strided = 0.0;
    [[maybe_unused]] const double n_SCHEDULE_ticket = 1.0;
    [[maybe_unused]] const double n_SECTION_MB = 32.0;
    [[maybe_unused]] const double n_SPLIT = 8.0;
    [[maybe_unused]] const double n_TURNS = 0.0;
    [[maybe_unused]] const double n_TURNS_ALONE = 1.0;
    [[maybe_unused]] const double n_TURNS_CAUSAL = 0.0;
    [[maybe_unused]] const double n_VALUE_STAGES = 3.0;
    [[maybe_unused]] const double n_VALUE_STAGES_CAUSAL = 2.0;
    [[maybe_unused]] const double n_WATCH = 1.0;
    [[maybe_unused]] const double n_WATCH_all = 1.0;
    [[maybe_unused]] const double n_WATCH_halves = 0.0;
    [[maybe_unused]] const double n_window_span = ((double(n_window == 0.0)) != 0.0 ? n_S_kv : expression::min(n_window, n_S_kv));
    [[maybe_unused]] const double n_window_rows = expression::min(n_S_q, n_S_kv);
    [[maybe_unused]] const double n_window_before = ((n_window_rows * n_window_span) - expression::divide(std::pow(expression::max(0.0, ((n_window_span - n_S_kv) + n_window_rows)), 2.0), 2.0));
    [[maybe_unused]] const double n_pairs = ((n_causal) != 0.0 ? n_window_before : ((double(n_window == 0.0)) != 0.0 ? (n_S_q * n_S_kv) : ((n_window_before + (n_window_rows * expression::min(n_window, n_window_rows))) - expression::divide(std::pow(expression::min(n_window, n_window_rows), 2.0), 2.0))));
    [[maybe_unused]] const double n_keys = ((double(n_D == 256.0)) != 0.0 ? n_BLOCK_N_WIDE : ((n_causal) != 0.0 ? n_BLOCK_N_CAUSAL : n_BLOCK_N));
    [[maybe_unused]] const double n_stages = ((double(n_D == 256.0)) != 0.0 ? 4.0 : ((n_causal) != 0.0 ? (n_KEY_STAGES_CAUSAL + n_VALUE_STAGES_CAUSAL) : (n_KEY_STAGES + n_VALUE_STAGES)));
    [[maybe_unused]] const double n_m_blocks = expression::ceil_div(n_S_q, 128.0);
    [[maybe_unused]] const double n_paired = ((n_causal) != 0.0 ? double((double((double((double((double((double((n_PAIRS_CAUSAL != 0.0) && (double(n_keys == 128.0) != 0.0)) != 0.0) && (double(n_D != 256.0) != 0.0)) != 0.0) && (double(std::fmod(n_S_q, 256.0) == 0.0) != 0.0)) != 0.0) && (double(n_S_q >= 4096.0) != 0.0)) != 0.0) && (double(n_S_q <= n_S_kv) != 0.0)) != 0.0) && (double(((n_B * n_H) * n_m_blocks) >= n_PAIRED_FROM) != 0.0)) : double((((double(n_D == 256.0)) != 0.0 ? n_PAIRS_WIDE : n_PAIRS) != 0.0) && (double(std::fmod(n_m_blocks, 2.0) == 0.0) != 0.0)));
    [[maybe_unused]] const double n_from = ((double(n_D == 256.0)) != 0.0 ? n_QUERIES_WIDE : ((double(n_causal == 0.0)) != 0.0 ? n_QUERIES : ((n_paired) != 0.0 ? n_QUERIES_CAUSAL : n_QUERIES_ALONE)));
    [[maybe_unused]] const double n_held = ((double(n_from == n_QUERIES_registers)) != 0.0 ? expression::divide(n_D, 4.0) : ((double(n_from == n_QUERIES_half)) != 0.0 ? expression::divide(n_D, 8.0) : 0.0));
    [[maybe_unused]] const double n_places = ((double(n_D == 256.0)) != 0.0 ? n_PLACES_WIDE : ((double(n_held == expression::divide(n_D, 4.0))) != 0.0 ? n_PLACES : 2.0));
    [[maybe_unused]] const double n_smem = (((((128.0 * n_places) + (n_stages * n_keys)) * n_D) * 2.0) + 1536.0);
    [[maybe_unused]] const double n_wide = (1.0 + n_paired);
    [[maybe_unused]] const double n_m_tiles = expression::divide(n_m_blocks, n_wide);
    [[maybe_unused]] const double n_tiles = ((n_B * n_H) * n_m_tiles);
    [[maybe_unused]] const double n_blocks = expression::floor(expression::divide(n_num_sms, n_wide));
    [[maybe_unused]] const double n_left = std::fmod(n_tiles, n_blocks);
    [[maybe_unused]] const double n_parted = ((double((double((double(n_causal == 0.0) != 0.0) && (double((n_left * n_SPLIT) <= n_blocks) != 0.0)) != 0.0) && (double(n_SPLIT <= expression::ceil_div(n_S_kv, n_keys)) != 0.0))) != 0.0 ? n_left : 0.0);
    [[maybe_unused]] const double n_whole = ((double(n_SPLIT == 1.0)) != 0.0 ? n_tiles : (n_tiles - n_parted));
    [[maybe_unused]] const double n_units = (n_whole + ((n_tiles - n_whole) * n_SPLIT));
    [[maybe_unused]] const double n_group = expression::divide(n_H, n_H_kv);
    [[maybe_unused]] const double n_fitting = (expression::floor(expression::divide((n_SECTION_MB * 1048576.0), ((4.0 * n_S_kv) * n_D))) * n_group);
    [[maybe_unused]] const double n_sections = ((n_causal) != 0.0 ? expression::ceil_div((n_B * n_H), expression::max(1.0, expression::min(n_fitting, (n_B * n_H)))) : (n_B * n_H));
    [[maybe_unused]] const double n_section = expression::ceil_div((n_B * n_H), n_sections);
    [[maybe_unused]] const double n_drawn = ((n_causal) != 0.0 ? double((double(n_SCHEDULE_CAUSAL == n_SCHEDULE_CAUSAL_ticket) != 0.0) && (double((double(n_sections > 1.0) != 0.0) || (double((n_tiles * n_wide) > (n_DEALT * 128.0)) != 0.0)) != 0.0)) : double(n_SCHEDULE == n_SCHEDULE_ticket));
    if (!(n_B >= 1.0 && n_B <= 2147483647.0)) throw std::invalid_argument("attention_forward: B is " + std::to_string((long long)(n_B)) + ", but must be from 1 to 2147483647");
    if (!(n_H >= 1.0 && n_H <= 2147483647.0)) throw std::invalid_argument("attention_forward: H is " + std::to_string((long long)(n_H)) + ", but must be from 1 to 2147483647");
    if (!(n_H_kv >= 1.0 && n_H_kv <= 2147483647.0)) throw std::invalid_argument("attention_forward: H_kv is " + std::to_string((long long)(n_H_kv)) + ", but must be from 1 to 2147483647");
    if (!(n_S_q >= 1.0 && n_S_q <= 2147483647.0)) throw std::invalid_argument("attention_forward: S_q is " + std::to_string((long long)(n_S_q)) + ", but must be from 1 to 2147483647");
    if (!(n_S_kv >= 1.0 && n_S_kv <= 2147483647.0)) throw std::invalid_argument("attention_forward: S_kv is " + std::to_string((long long)(n_S_kv)) + ", but must be from 1 to 2147483647");
    if (!(n_D >= 1.0 && n_D <= 2147483647.0)) throw std::invalid_argument("attention_forward: D is " + std::to_string((long long)(n_D)) + ", but must be from 1 to 2147483647");
    if ((double(std::fmod(n_H, n_H_kv) == 0.0)) == 0.0) throw std::invalid_argument("attention_forward: needs H % H_kv == 0");
    if ((double((double((double((double((double(n_dtype != n_f32) != 0.0) && (double((double((double(n_D == 64.0) != 0.0) || (double(n_D == 128.0) != 0.0)) != 0.0) || (double(n_D == 256.0) != 0.0)) != 0.0)) != 0.0) && (double(n_scale > 0.0) != 0.0)) != 0.0) && (double(n_window == 0.0) != 0.0)) != 0.0) && (double(n_softcap == 0.0) != 0.0))) == 0.0) throw std::invalid_argument("attention_forward: this kernel needs ((dtype != f32 && (D == 64 || D == 128 || D == 256) && scale > 0) && window == 0) && softcap == 0");
    if ((double(n_smem <= n_smem_max)) == 0.0) throw std::invalid_argument("attention_forward: the constraint 'smem <= smem_max' is not satisfied for these sizes on this GPU");
    if ((double((((expression::divide((3.0 * n_keys), 4.0) + expression::divide(n_D, 2.0)) + 24.0) + n_held) <= 240.0)) == 0.0) throw std::invalid_argument("attention_forward: the constraint '3 * keys / 4 + D / 2 + 24 + held <= 240' is not satisfied for these sizes on this GPU");
    std::size_t chosen = 0;
    if (n_D == 128.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 1.0) {
      chosen = 0;
    } else if (n_D == 128.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 0.0) {
      chosen = 1;
    } else if (n_D == 128.0 && n_causal == 0.0 && n_paired == 1.0 && n_drawn == 0.0) {
      chosen = 2;
    } else if (n_D == 128.0 && n_causal == 1.0 && n_paired == 1.0 && n_drawn == 1.0) {
      chosen = 3;
    } else if (n_D == 64.0 && n_causal == 0.0 && n_paired == 1.0 && n_drawn == 0.0) {
      chosen = 4;
    } else if (n_D == 64.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 1.0) {
      chosen = 5;
    } else if (n_D == 64.0 && n_causal == 1.0 && n_paired == 1.0 && n_drawn == 1.0) {
      chosen = 6;
    } else if (n_D == 256.0 && n_causal == 0.0 && n_paired == 1.0 && n_drawn == 0.0) {
      chosen = 7;
    } else if (n_D == 256.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 1.0) {
      chosen = 8;
    } else if (n_D == 128.0 && n_causal == 0.0 && n_paired == 0.0 && n_drawn == 0.0) {
      chosen = 9;
    } else if (n_D == 256.0 && n_causal == 0.0 && n_paired == 0.0 && n_drawn == 0.0) {
      chosen = 10;
    } else if (n_D == 64.0 && n_causal == 0.0 && n_paired == 0.0 && n_drawn == 0.0) {
      chosen = 11;
    } else if (n_D == 64.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 0.0) {
      chosen = 12;
    } else if (n_D == 256.0 && n_causal == 1.0 && n_paired == 0.0 && n_drawn == 0.0) {
      chosen = 13;
    } else {
      throw std::invalid_argument("attention_forward: built for D128_causal1_paired0_drawn1, D128_causal1_paired0_drawn0, D128_causal0_paired1_drawn0, D128_causal1_paired1_drawn1, D64_causal0_paired1_drawn0, D64_causal1_paired0_drawn1, D64_causal1_paired1_drawn1, D256_causal0_paired1_drawn0, D256_causal1_paired0_drawn1, D128_causal0_paired0_drawn0, D256_causal0_paired0_drawn0, D64_causal0_paired0_drawn0, D64_causal1_paired0_drawn0, D256_causal1_paired0_drawn0 only");
    }
    const bytes_t sizes{std::size_t(whole(((double((n_drawn != 0.0) || (double(n_whole < n_tiles) != 0.0))) != 0.0 ? (64.0 + ((8.0 * (n_tiles - n_whole)) * n_wide)) : 0.0), "the size of workspace ticket")), std::size_t(whole(expression::max(64.0, ((((n_units - n_whole) * n_wide) * (expression::divide(n_D, 2.0) + 4.0)) * 1024.0)), "the size of workspace parts"))};
    if (prepared_bytes) return prepare(chosen, sizes, *prepared_bytes);
    [[maybe_unused]] const auto places = room(sizes, given_workspace);
    driver::TensorMap map_map_q =
        tensor_map("map_q", 9, 2.0, arguments.q,
                   {n_D, n_H, n_S_q, n_B}, {n_D, (n_H * n_D), ((n_S_q * n_H) * n_D)}, {64.0, 1.0, 64.0, 1.0}, {1.0, 1.0, 1.0, 1.0},
                   0, 3, 2, 0);  // interleave none, swizzle 128B, L2 128B, outside zero
    driver::TensorMap map_map_k =
        tensor_map("map_k", 9, 2.0, arguments.k,
                   {n_D, n_H_kv, n_S_kv, n_B}, {n_D, (n_H_kv * n_D), ((n_S_kv * n_H_kv) * n_D)}, {64.0, 1.0, n_keys, 1.0}, {1.0, 1.0, 1.0, 1.0},
                   0, 3, 3, 0);  // interleave none, swizzle 128B, L2 256B, outside zero
    driver::TensorMap map_map_v =
        tensor_map("map_v", 9, 2.0, arguments.v,
                   {n_D, n_H_kv, n_S_kv, n_B}, {n_D, (n_H_kv * n_D), ((n_S_kv * n_H_kv) * n_D)}, {64.0, 1.0, n_keys, 1.0}, {1.0, 1.0, 1.0, 1.0},
                   0, 3, 3, 0);  // interleave none, swizzle 128B, L2 256B, outside zero
    driver::TensorMap map_map_o =
        tensor_map("map_o", 9, 2.0, arguments.o,
                   {n_D, n_H, n_S_q, n_B}, {n_D, (n_H * n_D), ((n_S_q * n_H) * n_D)}, {64.0, 1.0, 16.0, 1.0}, {1.0, 1.0, 1.0, 1.0},
                   0, 3, 0, 0);  // interleave none, swizzle 128B, L2 none, outside zero
    if (sizes[0] > 0)
      driver::must(driver::api().MemsetD8Async(places[0], 0, sizes[0], stream), "zeroing ticket");
    // attention_forward
    const void* argument_0_4 = arguments.o;
    const void* argument_0_5 = arguments.lse;
    unsigned long long argument_0_6 = places[0];  // ticket
    unsigned long long argument_0_7 = places[1];  // parts
    std::int32_t argument_0_8 = integer<std::int32_t>(n_H, "the argument 'H' of a kernel");
    std::int32_t argument_0_9 = integer<std::int32_t>(n_group, "the argument 'group' of a kernel");
    std::int32_t argument_0_10 = integer<std::int32_t>(n_S_q, "the argument 'S_q' of a kernel");
    std::int32_t argument_0_11 = integer<std::int32_t>(n_S_kv, "the argument 'S_kv' of a kernel");
    std::int32_t argument_0_12 = integer<std::int32_t>(n_m_tiles, "the argument 'm_tiles' of a kernel");
    std::int32_t argument_0_13 = integer<std::int32_t>(n_tiles, "the argument 'tiles' of a kernel");
    std::int32_t argument_0_14 = integer<std::int32_t>(n_whole, "the argument 'whole' of a kernel");
    std::int32_t argument_0_15 = integer<std::int32_t>(n_units, "the argument 'units' of a kernel");
    std::int32_t argument_0_16 = integer<std::int32_t>(n_section, "the argument 'section' of a kernel");
    float argument_0_17 = static_cast<float>(n_scale);
    void* parameters_0[] = {(void*)&map_map_q, (void*)&map_map_k, (void*)&map_map_v, (void*)&map_map_o, (void*)&argument_0_4, (void*)&argument_0_5, (void*)&argument_0_6, (void*)&argument_0_7, (void*)&argument_0_8, (void*)&argument_0_9, (void*)&argument_0_10, (void*)&argument_0_11, (void*)&argument_0_12, (void*)&argument_0_13, (void*)&argument_0_14, (void*)&argument_0_15, (void*)&argument_0_16, (void*)&argument_0_17, nullptr};
    launch(chosen, 0, three_t{count_of((expression::min(n_blocks, n_units) * n_wide), 2147483647.0, "grid[0]"), count_of(1.0, 65535.0, "grid[1]"), count_of(1.0, 65535.0, "grid[2]")},
           three_t{count_of(384.0, 1024.0, "block[0]"), count_of(1.0, 1024.0, "block[1]"), count_of(1.0, 64.0, "block[2]")},
           three_t{count_of(n_wide, 16.0, "cluster[0]"), count_of(1.0, 16.0, "cluster[1]"), count_of(1.0, 16.0, "cluster[2]")},
           unsigned(whole(n_smem, "shared memory")), false, false, stream, parameters_0);
  }

  // The kernels of the plan, in order; one cubin for each specialization.
  static constexpr std::size_t kernel_count = 1, specialisation_count = 14;
  static constexpr std::array<const char*, kernel_count> kernel_names{ "attention_forward" };
  struct image_t {
    std::size_t specialisation;
    int capability;  // 90
    bool exact;      // runs only on this architecture (sm_90a); otherwise also on newer ones of the same generation
    const unsigned char* bytes;
  };
  static const std::vector<image_t>& images() {
    static const std::vector<image_t> all{
        {0, 90, true, cultivar_cubin_f6efb97d2075_D128_causal1_paired0_drawn1_sm_90a_cubin},
        {1, 90, true, cultivar_cubin_f6efb97d2075_D128_causal1_paired0_drawn0_sm_90a_cubin},
        {2, 90, true, cultivar_cubin_f6efb97d2075_D128_causal0_paired1_drawn0_sm_90a_cubin},
        {3, 90, true, cultivar_cubin_f6efb97d2075_D128_causal1_paired1_drawn1_sm_90a_cubin},
        {4, 90, true, cultivar_cubin_f6efb97d2075_D64_causal0_paired1_drawn0_sm_90a_cubin},
        {5, 90, true, cultivar_cubin_f6efb97d2075_D64_causal1_paired0_drawn1_sm_90a_cubin},
        {6, 90, true, cultivar_cubin_f6efb97d2075_D64_causal1_paired1_drawn1_sm_90a_cubin},
        {7, 90, true, cultivar_cubin_f6efb97d2075_D256_causal0_paired1_drawn0_sm_90a_cubin},
        {8, 90, true, cultivar_cubin_f6efb97d2075_D256_causal1_paired0_drawn1_sm_90a_cubin},
        {9, 90, true, cultivar_cubin_f6efb97d2075_D128_causal0_paired0_drawn0_sm_90a_cubin},
        {10, 90, true, cultivar_cubin_f6efb97d2075_D256_causal0_paired0_drawn0_sm_90a_cubin},
        {11, 90, true, cultivar_cubin_f6efb97d2075_D64_causal0_paired0_drawn0_sm_90a_cubin},
        {12, 90, true, cultivar_cubin_f6efb97d2075_D64_causal1_paired0_drawn0_sm_90a_cubin},
        {13, 90, true, cultivar_cubin_f6efb97d2075_D256_causal1_paired0_drawn0_sm_90a_cubin},
    };
    return all;
  }

  struct three_t {
    unsigned x = 1, y = 1, z = 1;
    unsigned long long count() const { return 1ull * x * y * z; }
  };
  struct kernel_t {
    void* function = nullptr;
    unsigned shared_bytes = 0;  // limit set so far
    bool nonportable = false;
  };

  int attribute(int which) const {
    int value = 0;
    driver::must(driver::api().DeviceGetAttribute(&value, which, device_), "asking for the GPU's numbers");
    return value;
  }

  const unsigned char* code(std::size_t specialisation) const {
    const image_t* best = nullptr;
    for (const image_t& image : images()) {
      if (image.specialisation != specialisation) continue;
      const bool fits = image.exact ? image.capability == compute_capability_
                                    : image.capability / 10 == compute_capability_ / 10 && image.capability <= compute_capability_;
      if (fits && (best == nullptr || image.capability > best->capability || image.exact)) best = &image;
    }
    return best ? best->bytes : nullptr;
  }

  kernel_t& kernel(std::size_t specialisation, std::size_t which) {
    void*& module = modules_[specialisation];
    if (module == nullptr)
      driver::must(driver::api().ModuleLoadData(&module, code(specialisation)), "loading the machine code");
    kernel_t& found = kernels_[specialisation][which];
    if (found.function == nullptr)
      driver::must(driver::api().ModuleGetFunction(&found.function, module, kernel_names[which]), kernel_names[which]);
    return found;
  }

  static unsigned count_of(double value, double most, const char* what) {
    const std::int64_t number = whole(value, what);
    if (number < 1 || double(number) > most)
      throw std::invalid_argument(std::string(what) + " is " + std::to_string(number) + " for these sizes");
    return unsigned(number);
  }

  // Calls allocate no memory of the host, which would take most of their time.
  using bytes_t = std::array<std::size_t, 2>;
  using places_t = std::array<unsigned long long, 2>;

  static std::size_t total(const bytes_t& bytes) {
    std::size_t all = 0;
    for (auto size : bytes) all += (size + 255) / 256 * 256;
    return all;
  }
  void prepare(std::size_t specialisation, const bytes_t& sizes, std::size_t& bytes) {
    bytes = total(sizes);
    for (std::size_t k = 0; k < kernel_count; ++k) kernel(specialisation, k);
  }

  // Memory for all workspaces, `given` or this object's, kept between calls; each is aligned to 256 bytes.
  places_t room(const bytes_t& bytes, unsigned long long given) {
    if (given == 0 && total(bytes) > capacity_) {
      if (workspace_) driver::must(driver::api().MemFree(workspace_), "freeing the workspace");  // waits for its users
      workspace_ = 0;
      capacity_ = 0;
      driver::must(driver::api().MemAlloc(&workspace_, total(bytes)), "allocating the workspace");
      capacity_ = total(bytes);
    }
    places_t places{};
    unsigned long long at = given ? given : workspace_;
    for (std::size_t w = 0; w < bytes.size(); ++w) {
      places[w] = at;
      at += (bytes[w] + 255) / 256 * 256;
    }
    return places;
  }

  // Innermost first; strides in elements, from dimension 1 on.
  static driver::TensorMap tensor_map(const char* name, int type, double element_bytes, const void* address,
                                      std::initializer_list<double> sizes, std::initializer_list<double> strides,
                                      std::initializer_list<double> box, std::initializer_list<double> steps,
                                      int interleave, int swizzle, int promotion, int fill) {
    std::uint64_t extents[5], bytes[5];
    std::uint32_t boxes[5], element_strides[5];
    const auto write = [&](std::initializer_list<double> from, auto* to, double factor = 1) {
      for (double each : from) *to++ = static_cast<std::remove_pointer_t<decltype(to)>>(whole(each * factor, name));
    };
    write(sizes, extents), write(strides, bytes, element_bytes), write(box, boxes), write(steps, element_strides);
    driver::TensorMap map;
    driver::must(driver::api().TensorMapEncodeTiled(&map, type, std::uint32_t(sizes.size()), const_cast<void*>(address),
                                                    extents, bytes, boxes, element_strides, interleave, swizzle,
                                                    promotion, fill),
                 "tensor map ", name);
    return map;
  }

  void launch(std::size_t specialisation, std::size_t which, three_t grid, three_t block, three_t cluster,
              unsigned shared_bytes, bool cooperative, bool programmatic, CUstream_st* stream, void** parameters) {
    kernel_t& target = kernel(specialisation, which);
    const auto& api = driver::api();
    if (shared_bytes > target.shared_bytes) {
      driver::must(api.FuncSetAttribute(target.function, driver::max_dynamic_shared, int(shared_bytes)),
                   "dynamic shared memory");
      target.shared_bytes = shared_bytes;
    }
    if (cluster.count() > 8 && !target.nonportable) {
      driver::must(api.FuncSetAttribute(target.function, driver::nonportable_cluster, 1), "clusters of more than 8");
      target.nonportable = true;
    }
    driver::Attribute attributes[3];
    unsigned count = 0;
    if (cluster.count() > 1) {
      attributes[count].id = driver::cluster_dimension;
      attributes[count].value[0] = cluster.x;
      attributes[count].value[1] = cluster.y;
      attributes[count++].value[2] = cluster.z;
    }
    if (cooperative) {
      attributes[count].id = driver::cooperative;
      attributes[count++].value[0] = 1;
    }
    if (programmatic) {
      attributes[count].id = driver::programmatic_serialization;
      attributes[count++].value[0] = 1;
    }
    const driver::LaunchConfig config{ {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, stream,
                                       attributes, count};
    driver::must(api.LaunchKernelEx(&config, target.function, parameters, nullptr),
                 "launching ", kernel_names[which]);
  }

  int device_ = 0;
  int compute_capability_ = 0, num_sms_ = 0, l2_bytes_ = 0, threads_max_ = 0, registers_max_ = 0, smem_max_ = 0;
  std::array<void*, specialisation_count> modules_{};
  std::array<std::array<kernel_t, kernel_count>, specialisation_count> kernels_{};
  unsigned long long workspace_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace attention_forward_f6efb97d2075
}  // namespace cultivar_export
