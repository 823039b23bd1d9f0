// attention_forward by Dao-AILab's FlashAttention-3 for Hopper, from its own headers. This file makes the
// same decisions as hopper/flash_api.cpp for a dense call without options (mha_fwd, on tensors [B, S, heads,
// D]): the kernel, whether query heads that share keys are packed, the tile counter of causal calls, and the
// number of SMs.
#include <cuda_runtime_api.h>

// FlashAttention's headers require these to be included first.
#include <cutlass/numeric_types.h>
#include <cutlass/version.h>

#include <flash.h>
#include <heuristics.h>
#include <tile_size.h>
#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <type_traits>

#include "evaluators/contenders/libraries/answers.hpp"
#include "evaluators/contenders/libraries/vendor.hpp"

namespace {

using namespace cultivar;
using contender::integer;
using contender::place;

// Defined by flash_attention_3_kernels.cu.
using Kernel = void (*)(Flash_fwd_params&, cudaStream_t);

template <class Element, int kDimension>
Kernel kernel_of(bool packed) {
  constexpr bool kSplit = false, kPaged = false, kSoftcap = false;
  return packed ? &run_mha_fwd_<90, Element, kDimension, kDimension, kSplit, kPaged, kSoftcap, true>
                : &run_mha_fwd_<90, Element, kDimension, kDimension, kSplit, kPaged, kSoftcap, false>;
}

// Null if this build does not include that part.
Kernel kernel_of(bool is_bf16, int dimension, bool packed) {
#define CULTIVAR_PART(Element, kDimension)                                                         \
  if (is_bf16 == std::is_same_v<cutlass::Element, cutlass::bfloat16_t> && dimension == kDimension) \
    return kernel_of<cutlass::Element, kDimension>(packed);
  CULTIVAR_FLASH_ATTENTION_3_PARTS
#undef CULTIVAR_PART
  return nullptr;
}

void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

int of_this_device(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  must(cudaGetDevice(&device), "reading the current device");
  must(cudaDeviceGetAttribute(&value, attribute, device), "reading a device attribute");
  return value;
}

class Attention {
 public:
  explicit Attention(const cultivar_contender_workload& w)
      : q_(place(w, "q")), k_(place(w, "k")), v_(place(w, "v")), o_(place(w, "o")), lse_(place(w, "lse")) {
    const std::string dtype = w.dtype;
    if (dtype != "bf16" && dtype != "f16")
      throw contender::Unsupported("flash_attention_3 supports bf16 and f16, but this is " + dtype);
    if (!contender::is_off(w, "window") || !contender::is_off(w, "softcap"))
      throw contender::Unsupported("this contender has no window and no softcap");
    const auto d = integer(w, "D");
    if (kernel_of(dtype == "bf16", static_cast<int>(d), false) == nullptr)
      throw contender::Unsupported("flash_attention_3 is not built for " + dtype + " with D = " +
                                   std::to_string(d) + " (CMake's CULTIVAR_FLASH_ATTENTION_3_PARTS)");
    const int arch = 10 * of_this_device(cudaDevAttrComputeCapabilityMajor) +
                     of_this_device(cudaDevAttrComputeCapabilityMinor);
    if (arch != 90)
      throw contender::Unsupported("flash_attention_3 needs Hopper (sm_90), but this GPU is sm_" +
                                   std::to_string(arch));
    describe(w, dtype == "bf16");
    const auto [block_m, block_n, in_registers, overlap] =
        tile_size_fwd_sm90(params_.d, params_.dv, params_.is_causal, /*is_local=*/false);
    if (splits(block_m, block_n) > 1)
      throw contender::Unsupported(
          "flash_attention_3 would split the keys among blocks for so few queries; split kernels are not "
          "built here");
    params_.num_splits = 1;
    params_.pack_gqa = params_.h != params_.h_k && should_pack_gqa(/*varlen_q=*/false, params_.seqlen_q,
                                                                   params_.h / params_.h_k, block_m);
    kernel_ = kernel_of(params_.is_bf16, params_.d, params_.pack_gqa);
    if (params_.is_causal) {  // its scheduler assigns tiles through a counter that starts at 0
      counter_.allocate(sizeof(int));
      params_.tile_count_semaphore = static_cast<int*>(counter_.data());
    }

    // The first launch loads the kernel and may wait for the device, so launch once here and not in a timed
    // run.
    std::vector<void*> data;
    for (std::uint32_t i = 0; i < w.tensor_count; ++i) data.push_back(w.tensors[i].data);
    launch(data.data(), nullptr);
    must(cudaStreamSynchronize(nullptr), "the first launch");
  }

  void launch(void* const* data, void* stream) {
    const auto queue = static_cast<cudaStream_t>(stream);
    params_.q_ptr = data[q_];
    params_.k_ptr = data[k_];
    params_.v_ptr = data[v_];
    params_.o_ptr = data[o_];
    params_.softmax_lse_ptr = data[lse_];
    if (params_.tile_count_semaphore != nullptr)
      must(cudaMemsetAsync(params_.tile_count_semaphore, 0, sizeof(int), queue), "zeroing the tile counter");
    kernel_(params_, queue);
  }

 private:
  // Sets what mha_fwd and set_params_fprop set; all other fields stay zero, as there.
  void describe(const cultivar_contender_workload& w, bool is_bf16) {
    Flash_fwd_params& p = params_;
    p.is_bf16 = is_bf16;
    p.b = p.b_k = static_cast<int>(integer(w, "B"));
    p.h = static_cast<int>(integer(w, "H"));
    p.h_k = static_cast<int>(integer(w, "H_kv"));
    p.seqlen_q = static_cast<int>(integer(w, "S_q"));
    p.seqlen_k = static_cast<int>(integer(w, "S_kv"));
    p.seqlen_q_rounded = (p.seqlen_q + 127) / 128 * 128;
    p.seqlen_k_rounded = (p.seqlen_k + 127) / 128 * 128;
    p.total_q = p.b * p.seqlen_q;
    p.total_k = p.b * p.seqlen_k;
    p.d = p.d_rounded = p.dv = p.dv_rounded = static_cast<int>(integer(w, "D"));
    p.page_size = 1;
    p.scale_softmax = static_cast<float>(contender::number(w, "scale"));
    p.p_dropout = p.rp_dropout = 1.0f;
    p.p_dropout_in_uint8_t = 255;
    const auto strides = [&](std::size_t tensor, auto& batch, auto& row, auto& head) {
      const std::int64_t* const of = w.tensors[tensor].strides;
      batch = of[0], row = of[1], head = of[2];
    };
    strides(q_, p.q_batch_stride, p.q_row_stride, p.q_head_stride);
    strides(k_, p.k_batch_stride, p.k_row_stride, p.k_head_stride);
    strides(v_, p.v_batch_stride, p.v_row_stride, p.v_head_stride);
    strides(o_, p.o_batch_stride, p.o_row_stride, p.o_head_stride);
    p.v_dim_stride = 1;
    // A single query sees every key, with or without a mask.
    p.is_causal = integer(w, "causal") != 0 && p.seqlen_q > 1;
    p.window_size_left = p.seqlen_k - 1;
    p.window_size_right = p.is_causal ? 0 : p.seqlen_q - 1;
    p.head_swizzle = p.is_causal;
    p.varlen_sort_batches = true;
    p.arch = 90;
    p.num_sm = of_this_device(cudaDevAttrMultiProcessorCount);
  }

  // Same as get_num_splits of flash_api.cpp, for 16-bit elements.
  int splits(int block_m, int block_n) const {
    const Flash_fwd_params& p = params_;
    const int n_blocks = (p.seqlen_k + block_n - 1) / block_n;
    const int m_blocks = (p.seqlen_q * (p.h / p.h_k) + block_m - 1) / block_m;
    const int bytes_of_a_head = p.seqlen_k * (p.d + p.dv) * 2;
    return num_splits_heuristic(p.b * p.h_k * m_blocks, p.num_sm, n_blocks, m_blocks, bytes_of_a_head,
                                p.is_causal, 128);
  }

  std::size_t q_, k_, v_, o_, lse_;
  Flash_fwd_params params_{};
  Kernel kernel_ = nullptr;
  vendor::Workspace counter_;
};

}  // namespace

extern "C" const cultivar_contender_description* cultivar_contender_describe() {
  static const std::string version =
      "FlashAttention " CULTIVAR_FLASH_ATTENTION_VERSION ", CUTLASS " + std::to_string(CUTLASS_MAJOR) + "." +
      std::to_string(CUTLASS_MINOR) + "." + std::to_string(CUTLASS_PATCH) + ", nvcc " +
      std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  static const cultivar_contender_description told{CULTIVAR_CONTENDER_ABI, "flash_attention_3",
                                                   version.c_str(), "attention_forward", "cuda"};
  return &told;
}

CULTIVAR_CONTENDER_CALLS(Attention)
