// A row of a matrix as 16-byte vectors, wherever it begins. ALIGNED is specialized: every row begins at a multiple of 16 bytes.
#pragma once

#include "vectors.cuh"

namespace {

// A row begins `shift` elements behind a multiple of 16 bytes; its vector v has the columns v * kVector - shift and
// following. The first and the last vector reach into other rows and are then read and written by elements.
struct Row {
  long long first;  // element of the tensor
  int shift, C;

  __device__ __forceinline__ Row(long long row, int columns) : first(row * columns), C(columns) {
    shift = ALIGNED ? 0 : static_cast<int>(first % kVector);
  }
  __device__ __forceinline__ int column(int v) const { return v * kVector - shift; }
  __device__ __forceinline__ bool whole(int v) const {
    return ALIGNED || (column(v) >= 0 && column(v) + kVector <= C);
  }
  __device__ __forceinline__ Vector load(const Element* tensor, int v, Element outside) const {
    Vector x;
    if (whole(v)) {
      x.whole = load_whole(tensor + first + column(v));
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const int c = column(v) + i;
        x.part[i] = c >= 0 && c < C ? tensor[first + c] : outside;
      }
    }
    return x;
  }
  __device__ __forceinline__ void store(Element* tensor, int v, const float (&values)[kVector]) const {
    const Vector x = narrow(values);
    if (whole(v)) {
      store_whole(tensor + first + column(v), x.whole);
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const int c = column(v) + i;
        if (c >= 0 && c < C) tensor[first + c] = x.part[i];
      }
    }
  }
  // Of a tensor with one row only, which lies differently.
  __device__ __forceinline__ Vector load_shared(const Element* tensor, int v) const {
    Vector x;
    if (ALIGNED) {
      x.whole = *reinterpret_cast<const uint4*>(tensor + column(v));
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const int c = column(v) + i;
        x.part[i] = c >= 0 && c < C ? tensor[c] : Element{};
      }
    }
    return x;
  }
};

}  // namespace
