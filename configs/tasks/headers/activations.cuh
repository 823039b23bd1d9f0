// Activations by one exponential and one reciprocal.
#pragma once

#include "approximate.cuh"

namespace {

// x / 2 * (1 + tanh(u)) = x / (1 + e^-2u) with u = sqrt(2 / pi) * (x + 0.044715 x^3)
__device__ __forceinline__ float gelu_by_tanh(float x) {
  const float u = 0.797884561f * fmaf(0.044715f * x * x, x, x);
  return x * reciprocal(1.0f + exp2_fast(-2.88539008f * u));
}
// x / (1 + e^-x): the exponential is infinite, the result 0, where x is very small.
__device__ __forceinline__ float silu_of(float x) {
  return x * reciprocal(1.0f + exp2_fast(-1.44269504f * x));
}

}  // namespace
