// FlashAttention-3's forward kernels for one element type and head dimension, instantiated from its headers
// as its own build does, without the variants that attention_forward never uses. Compiled by nvcc.
#include "flash_attention_3_failures.hpp"
#include "flash_fwd_launch_template.h"

// No split, no paging, no softcap; with query heads that share keys either separate or packed.
#define CULTIVAR_KERNELS(packed)                                                                           \
  template void run_mha_fwd_<90, cutlass::CULTIVAR_ELEMENT, CULTIVAR_DIMENSION, CULTIVAR_DIMENSION, false, \
                             false, false, packed>(Flash_fwd_params&, cudaStream_t)
CULTIVAR_KERNELS(false);
CULTIVAR_KERNELS(true);
