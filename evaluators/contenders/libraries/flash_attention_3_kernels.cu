// FlashAttention-3's forward kernels for one element type and head dimension, instantiated from its headers
// as its own build does, without the variants that attention_forward never uses. Compiled by nvcc.
#include <stdexcept>
#include <string>

#include "cuda_check.h"

// FlashAttention's own checks end the process, which a contender must not do.
#undef CHECK_CUDA
#undef CHECK_CUTLASS
#define CHECK_CUDA(call)                                                                        \
  do {                                                                                          \
    if (const cudaError_t status_ = (call); status_ != cudaSuccess)                             \
      throw std::runtime_error(std::string("flash-attention: ") + cudaGetErrorString(status_)); \
  } while (0)
#define CHECK_CUTLASS(call)                                                           \
  do {                                                                                \
    if (const cutlass::Status status_ = (call); status_ != cutlass::Status::kSuccess) \
      throw std::runtime_error(std::string("flash-attention: CUTLASS: ") +            \
                               cutlass::cutlassGetStatusString(status_));             \
  } while (0)

#include "flash_fwd_launch_template.h"

// No split, no paging, no softcap; with query heads that share keys either separate or packed.
#define CULTIVAR_KERNELS(packed)                                                                           \
  template void run_mha_fwd_<90, cutlass::CULTIVAR_ELEMENT, CULTIVAR_DIMENSION, CULTIVAR_DIMENSION, false, \
                             false, false, packed>(Flash_fwd_params&, cudaStream_t)
CULTIVAR_KERNELS(false);
CULTIVAR_KERNELS(true);
