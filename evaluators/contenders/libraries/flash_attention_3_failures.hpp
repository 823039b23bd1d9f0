// SPDX-License-Identifier: Apache-2.0
// FlashAttention's own checks end the process, which a contender must not do. Included before its headers.
#pragma once

#include <stdexcept>
#include <string>

#include "cuda_check.h"

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
