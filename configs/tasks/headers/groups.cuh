// A group of channels of an image as one row: its sums, and its result by channel. UNIFORM is specialized: all elements of a vector
// are of one channel, because S is a multiple of their number.
#pragma once

#include "activations.cuh"
#include "rows.cuh"

namespace {

__device__ __forceinline__ float sum_of(const Vector& x) {
  float values[kVector], sum = 0.0f;
  widen(x, values);
#pragma unroll
  for (int i = 0; i < kVector; ++i) sum += values[i];
  return sum;
}
// Of the deviations from the mean; those of elements outside of the group do not count.
__device__ __forceinline__ float squares_of(const Row& row, int v, const Vector& x, float mean) {
  float values[kVector], sum = 0.0f;
  widen(x, values);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const int c = row.column(v) + i;
    const float deviation = ALIGNED || (c >= 0 && c < row.C) ? values[i] - mean : 0.0f;
    sum = fmaf(deviation, deviation, sum);
  }
  return sum;
}

__device__ __forceinline__ float widened(Element x) {
  Vector one;
  one.whole = make_uint4(0, 0, 0, 0);
  one.part[0] = x;
  float values[kVector];
  widen(one, values);
  return values[0];
}

// What the elements of a group become.
struct Result {
  const Element *weight, *bias;  // of the first channel of the group
  int D, S, silu;
  float mean, factor;

  __device__ __forceinline__ void store(const Row& row, Element* y, int v, const Vector& x) const {
    float values[kVector];
    widen(x, values);
    const int first = min(max(row.column(v), 0), row.C - 1);  // the last vector may lie behind the row
    int d = first / S, left = S - first % S;  // the channel of `first`, and its elements from there on
    float scale = widened(weight[d]), shift = widened(bias[d]);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (!UNIFORM) {
        scale = widened(weight[d]), shift = widened(bias[d]);
        left -= row.column(v) + i >= 0;
        const bool next = left == 0 && d + 1 < D;
        d += next, left = next ? S : left;
      }
      const float value = fmaf((values[i] - mean) * factor, scale, shift);  // factor * scale may overflow
      values[i] = silu ? silu_of(value) : value;
    }
    row.store(y, v, values);
  }
};

}  // namespace
