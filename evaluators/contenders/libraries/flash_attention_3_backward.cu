// FlashAttention-3's backward kernels for one element type and head dimension, instantiated from its headers
// as its own build does, without the variants that attention_backward never uses. Compiled by nvcc.
#include "flash_attention_3_failures.hpp"
#include "static_switch.h"

// Without the deterministic kernels, which would double the time to compile.
#undef BOOL_SWITCH
#define BOOL_SWITCH(condition, name, ...) CULTIVAR_SWITCH_##name(condition, name, __VA_ARGS__)
#define CULTIVAR_SWITCH_GQA(condition, name, ...) \
  [&] {                                           \
    if (condition) {                              \
      constexpr static bool name = true;          \
      return __VA_ARGS__();                       \
    }                                             \
    constexpr static bool name = false;           \
    return __VA_ARGS__();                         \
  }()
#define CULTIVAR_SWITCH_Deterministic_(condition, name, ...) \
  [&] {                                                      \
    constexpr static bool name = false;                      \
    return __VA_ARGS__();                                    \
  }()

#include "flash_bwd_launch_template.h"

#define CULTIVAR_JOINED(name, dimension) name##dimension
#define CULTIVAR_RUN(dimension) CULTIVAR_JOINED(run_mha_bwd_hdim, dimension)
template <>
void run_mha_bwd_<90, cutlass::CULTIVAR_ELEMENT, CULTIVAR_DIMENSION, false>(Flash_bwd_params& params,
                                                                            cudaStream_t stream) {
  CULTIVAR_RUN(CULTIVAR_DIMENSION)<90, cutlass::CULTIVAR_ELEMENT, false>(params, stream);
}
