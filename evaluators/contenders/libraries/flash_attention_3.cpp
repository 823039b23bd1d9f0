// SPDX-License-Identifier: Apache-2.0
// attention_forward and attention_backward by Dao-AILab's FlashAttention-3 for Hopper, from its own headers.
// This file makes the same decisions as hopper/flash_api.cpp for a dense call without options (mha_fwd and
// mha_bwd, on tensors [B, S, heads, D]). Forward: the kernel, whether query heads that share keys are packed,
// the tile counter of calls with a mask or a window, and the number of SMs. Backward: the sizes of its
// workspaces, not deterministic.
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

// Defined by flash_attention_3_kernels.cu and flash_attention_3_backward.cu.
using ForwardKernel = void (*)(Flash_fwd_params&, cudaStream_t);
using BackwardKernel = void (*)(Flash_bwd_params&, cudaStream_t);

template <class Element, int kDimension>
ForwardKernel forward_kernel(bool packed) {
  constexpr bool kSplit = false, kPaged = false, kSoftcap = false;
  return packed ? &run_mha_fwd_<90, Element, kDimension, kDimension, kSplit, kPaged, kSoftcap, true>
                : &run_mha_fwd_<90, Element, kDimension, kDimension, kSplit, kPaged, kSoftcap, false>;
}

template <class Element>
bool is(bool is_bf16) {
  return is_bf16 == std::is_same_v<Element, cutlass::bfloat16_t>;
}

// Null if this build does not include that part.
ForwardKernel forward_kernel([[maybe_unused]] const Flash_fwd_params& p) {
#define CULTIVAR_PART(Element, kDimension)                  \
  if (is<cutlass::Element>(p.is_bf16) && p.d == kDimension) \
    return forward_kernel<cutlass::Element, kDimension>(p.pack_gqa);
  CULTIVAR_FLASH_ATTENTION_3_PARTS
#undef CULTIVAR_PART
  return nullptr;
}
BackwardKernel backward_kernel([[maybe_unused]] const Flash_fwd_params& p) {
#define CULTIVAR_PART(Element, kDimension)                  \
  if (is<cutlass::Element>(p.is_bf16) && p.d == kDimension) \
    return &run_mha_bwd_<90, cutlass::Element, kDimension, /*Has_softcap=*/false>;
  CULTIVAR_FLASH_ATTENTION_3_BACKWARD_PARTS
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

int rounded_up(int value, int unit) {
  return (value + unit - 1) / unit * unit;
}

class Pass {
 public:
  virtual ~Pass() = default;
  virtual void launch(void* const* data, cudaStream_t queue) = 0;

 protected:
  explicit Pass(const cultivar_contender_workload& w)
      : q_(place(w, "q")), k_(place(w, "k")), v_(place(w, "v")), o_(place(w, "o")), lse_(place(w, "lse")) {
    const std::string dtype = w.dtype;
    if (dtype != "bf16" && dtype != "f16")
      throw contender::Unsupported("flash_attention_3 supports bf16 and f16, but this is " + dtype);
    if (!contender::is_off(w, "softcap"))
      throw contender::Unsupported(
          "flash_attention_3 caps logits by tanh.approx, which is off by 5e-4; those kernels are not built "
          "here");
    describe(w, dtype == "bf16");
  }

  void require(bool built, const char* pass) const {
    if (!built)
      throw contender::Unsupported(
          std::string("flash_attention_3 is not built for ") + pass + (params_.is_bf16 ? "bf16" : "f16") +
          " with D = " + std::to_string(params_.d) + " (CMake's CULTIVAR_FLASH_ATTENTION_3_PARTS)");
    const int arch = 10 * of_this_device(cudaDevAttrComputeCapabilityMajor) +
                     of_this_device(cudaDevAttrComputeCapabilityMinor);
    if (arch != 90)
      throw contender::Unsupported("flash_attention_3 needs Hopper (sm_90), but this GPU is sm_" +
                                   std::to_string(arch));
  }

  // The first launch loads the kernels and may wait for the device, so launch once here and not in a timed
  // run.
  void launch_once(const cultivar_contender_workload& w) {
    std::vector<void*> data;
    for (std::uint32_t i = 0; i < w.tensor_count; ++i) data.push_back(w.tensors[i].data);
    launch(data.data(), nullptr);
    must(cudaStreamSynchronize(nullptr), "the first launch");
  }

  void point_to(void* const* data) {
    params_.q_ptr = data[q_];
    params_.k_ptr = data[k_];
    params_.v_ptr = data[v_];
    params_.o_ptr = data[o_];
    params_.softmax_lse_ptr = data[lse_];
  }

  template <class Stride>
  static void strides(const cultivar_contender_workload& w, std::size_t tensor, Stride& batch, Stride& row,
                      Stride& head) {
    const std::int64_t* const of = w.tensors[tensor].strides;
    batch = of[0], row = of[1], head = of[2];
  }

  Flash_bwd_params params_{};

 private:
  // Sets what set_params_fprop sets; all other fields stay zero, as there.
  void describe(const cultivar_contender_workload& w, bool is_bf16) {
    Flash_fwd_params& p = params_;
    p.is_bf16 = is_bf16;
    p.b = static_cast<int>(integer(w, "B"));
    p.h = static_cast<int>(integer(w, "H"));
    p.h_k = static_cast<int>(integer(w, "H_kv"));
    p.seqlen_q = static_cast<int>(integer(w, "S_q"));
    p.seqlen_k = static_cast<int>(integer(w, "S_kv"));
    p.total_q = p.b * p.seqlen_q;
    p.total_k = p.b * p.seqlen_k;
    p.d = p.d_rounded = p.dv = p.dv_rounded = static_cast<int>(integer(w, "D"));
    p.scale_softmax = static_cast<float>(contender::number(w, "scale"));
    p.p_dropout = p.rp_dropout = 1.0f;
    p.p_dropout_in_uint8_t = 255;
    strides(w, q_, p.q_batch_stride, p.q_row_stride, p.q_head_stride);
    strides(w, k_, p.k_batch_stride, p.k_row_stride, p.k_head_stride);
    strides(w, v_, p.v_batch_stride, p.v_row_stride, p.v_head_stride);
    strides(w, o_, p.o_batch_stride, p.o_row_stride, p.o_head_stride);
    p.v_dim_stride = 1;
    see(integer(w, "causal") != 0,
        contender::is_off(w, "window") ? 0 : static_cast<int>(integer(w, "window")));
    p.arch = 90;
    p.num_sm = of_this_device(cudaDevAttrMultiProcessorCount);
  }

  // How many keys a query sees on either side of its own, as mha_fwd and set_params_fprop decide: a window
  // that hides nothing is none, and without one a single query sees every key, with or without a mask.
  void see(bool causal, int window) {
    Flash_fwd_params& p = params_;
    const bool left = window > 0 && window < p.seqlen_k;
    const bool right = window > 0 && window < p.seqlen_q;
    const bool masked = causal && (p.seqlen_q > 1 || left || right);
    p.is_causal = masked && !left;
    p.is_local = left || (right && !masked);
    p.window_size_left = left ? window - 1 : p.seqlen_k - 1;
    p.window_size_right = masked ? 0 : right ? window - 1 : p.seqlen_q - 1;
  }

  std::size_t q_, k_, v_, o_, lse_;
};

class Forward : public Pass {
 public:
  explicit Forward(const cultivar_contender_workload& w) : Pass(w) {
    Flash_fwd_params& p = params_;
    require(forward_kernel(p) != nullptr, "");
    p.seqlen_q_rounded = rounded_up(p.seqlen_q, 128);
    p.seqlen_k_rounded = rounded_up(p.seqlen_k, 128);
    p.b_k = p.b;
    p.page_size = 1;
    p.head_swizzle = p.is_causal || p.is_local;
    p.varlen_sort_batches = !p.is_local;
    const auto [block_m, block_n, in_registers, overlap] =
        tile_size_fwd_sm90(p.d, p.dv, p.is_causal, p.is_local);
    if (splits(block_m, block_n) > 1)
      throw contender::Unsupported(
          "flash_attention_3 would split the keys among blocks for so few queries; split kernels are not "
          "built here");
    p.num_splits = 1;
    p.pack_gqa = p.h != p.h_k && should_pack_gqa(/*varlen_q=*/false, p.seqlen_q, p.h / p.h_k, block_m);
    kernel_ = forward_kernel(p);
    if (p.is_causal || p.is_local) {  // its scheduler assigns tiles through a counter that starts at 0
      counter_.allocate(sizeof(int));
      p.tile_count_semaphore = static_cast<int*>(counter_.data());
    }
    launch_once(w);
  }

  void launch(void* const* data, cudaStream_t queue) override {
    point_to(data);
    if (params_.tile_count_semaphore != nullptr)
      must(cudaMemsetAsync(params_.tile_count_semaphore, 0, sizeof(int), queue), "zeroing the tile counter");
    kernel_(params_, queue);
  }

 private:
  // Same as get_num_splits of flash_api.cpp, for 16-bit elements.
  int splits(int block_m, int block_n) const {
    const Flash_fwd_params& p = params_;
    const int in_window = p.window_size_left + p.window_size_right + 1 + block_m;
    const int keys = p.is_local ? std::min(p.seqlen_k, in_window) : p.seqlen_k;
    const int n_blocks = (keys + block_n - 1) / block_n;
    const int m_blocks = (p.seqlen_q * (p.h / p.h_k) + block_m - 1) / block_m;
    const int bytes_of_a_head = p.seqlen_k * (p.d + p.dv) * 2;
    return num_splits_heuristic(p.b * p.h_k * m_blocks, p.num_sm, n_blocks, m_blocks, bytes_of_a_head,
                                p.is_causal || p.is_local, 128);
  }

  ForwardKernel kernel_ = nullptr;
  vendor::Workspace counter_;
};

class Backward : public Pass {
 public:
  explicit Backward(const cultivar_contender_workload& w)
      : Pass(w), grad_o_(place(w, "grad_o")), dq_(place(w, "dq")), dk_(place(w, "dk")), dv_(place(w, "dv")) {
    Flash_bwd_params& p = params_;
    if (p.is_local) throw contender::Unsupported("flash_attention_3's backward is built without windows");
    kernel_ = backward_kernel(p);
    require(kernel_ != nullptr, "the backward in ");
    strides(w, grad_o_, p.do_batch_stride, p.do_row_stride, p.do_head_stride);
    strides(w, dq_, p.dq_batch_stride, p.dq_row_stride, p.dq_head_stride);
    strides(w, dk_, p.dk_batch_stride, p.dk_row_stride, p.dk_head_stride);
    strides(w, dv_, p.dv_batch_stride, p.dv_row_stride, p.dv_head_stride);
    // The tiles of its kernels, as mha_bwd has them.
    const int block_m = p.d <= 64 ? 128 : p.is_causal ? 64 : 80, block_n = 128;
    p.seqlen_q_rounded = rounded_up(p.seqlen_q, block_m);
    p.seqlen_k_rounded = rounded_up(p.seqlen_k, block_n);
    const auto queries = static_cast<std::size_t>(p.b) * static_cast<std::size_t>(p.h) *
                         static_cast<std::size_t>(p.seqlen_q_rounded);
    const auto keys = static_cast<std::size_t>(p.b) * static_cast<std::size_t>(p.h_k) *
                      static_cast<std::size_t>(p.seqlen_k_rounded);
    const auto d = static_cast<std::size_t>(p.d);
    p.dq_accum_ptr = allocate(dq_sums_, queries * d);
    p.softmax_lse_log2_ptr = allocate(lse_log2_, queries);
    p.dsoftmax_sum = allocate(delta_, queries);
    p.dq_semaphore = static_cast<int*>(allocate(semaphores_, queries / static_cast<std::size_t>(block_m)));
    if (p.h != p.h_k) {  // dk and dv are sums over the query heads that share keys
      key_bytes_ = keys * d * sizeof(float);
      p.dk_accum_ptr = allocate(dk_sums_, keys * d);
      p.dv_accum_ptr = allocate(dv_sums_, keys * d);
    }
    launch_once(w);
  }

  void launch(void* const* data, cudaStream_t queue) override {
    point_to(data);
    params_.do_ptr = data[grad_o_];
    params_.dq_ptr = data[dq_];
    params_.dk_ptr = data[dk_];
    params_.dv_ptr = data[dv_];
    if (key_bytes_ > 0)
      for (void* const sums : {params_.dk_accum_ptr, params_.dv_accum_ptr})
        must(cudaMemsetAsync(sums, 0, key_bytes_, queue), "zeroing the sums of dk and dv");
    kernel_(params_, queue);
  }

 private:
  static void* allocate(vendor::Workspace& workspace, std::size_t floats) {
    workspace.allocate(floats * sizeof(float));
    return workspace.data();
  }

  std::size_t grad_o_, dq_, dk_, dv_, key_bytes_ = 0;
  BackwardKernel kernel_ = nullptr;
  vendor::Workspace dq_sums_, dk_sums_, dv_sums_, lse_log2_, delta_, semaphores_;
};

class Attention {
 public:
  explicit Attention(const cultivar_contender_workload& w) {
    const std::string task = contender::text(w, "task");
    if (task == "attention_forward")
      pass_ = std::make_unique<Forward>(w);
    else if (task == "attention_backward")
      pass_ = std::make_unique<Backward>(w);
    else
      throw contender::Unusable("flash_attention_3 computes attention_forward and attention_backward, not " +
                                task);
  }
  void launch(void* const* data, void* stream) { pass_->launch(data, static_cast<cudaStream_t>(stream)); }

 private:
  std::unique_ptr<Pass> pass_;
};

}  // namespace

extern "C" const cultivar_contender_description* cultivar_contender_describe() {
  static const std::string version =
      "FlashAttention " CULTIVAR_FLASH_ATTENTION_VERSION ", CUTLASS " + std::to_string(CUTLASS_MAJOR) + "." +
      std::to_string(CUTLASS_MINOR) + "." + std::to_string(CUTLASS_PATCH) + ", nvcc " +
      std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  static const cultivar_contender_description told{CULTIVAR_CONTENDER_ABI, "flash_attention_3",
                                                   version.c_str(), "*", "cuda"};
  return &told;
}

CULTIVAR_CONTENDER_CALLS(Attention)
