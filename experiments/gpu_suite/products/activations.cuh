// Activations by one exponential and one reciprocal, or two by two exponentials and one reciprocal.
#pragma once

#include "approximate.cuh"

namespace {

// x / 2 * (1 + tanh(u)) = x / (1 + e^-2u) with u = sqrt(2 / pi) * (x + 0.044715 x^3)
__device__ __forceinline__ float gelu_by_tanh(float x) {
  return x * reciprocal(1.0f + exp2_fast(x * fmaf(-0.1029432396f, x * x, -2.3022081981f)));
}
// x / (1 + e^-x): the exponential is infinite, the result 0, where x is very small.
__device__ __forceinline__ float silu_of(float x) {
  return x * reciprocal(1.0f + exp2_fast(-1.44269504f * x));
}

// 1 / (1 + 2^u) and 1 / (1 + 2^v), at least 2^-63.
__device__ __forceinline__ void reciprocals(float& u, float& v) {
  const float a = 1.0f + exp2_fast(fminf(u, 63.0f)), b = 1.0f + exp2_fast(fminf(v, 63.0f));
  const float both = reciprocal(a * b);
  u = both * b;
  v = both * a;
}
// x y where the limit of x y is 0 for x to minus infinity: there the formulas have infinity times 0.
__device__ __forceinline__ float scaled(float x, float y) {
  return fmaf(x, y, 0.0f * fminf(x, 0.0f));
}
__device__ __forceinline__ void gelu_of_both(float& x, float& y) {
  float u = x * fmaf(-0.1029432396f, x * x, -2.3022081981f),
        v = y * fmaf(-0.1029432396f, y * y, -2.3022081981f);
  reciprocals(u, v);
  x = scaled(x, u);
  y = scaled(y, v);
}
__device__ __forceinline__ void silu_of_both(float& x, float& y) {
  float u = -1.44269504f * x, v = -1.44269504f * y;
  reciprocals(u, v);
  x = scaled(x, u);
  y = scaled(y, v);
}

}  // namespace
