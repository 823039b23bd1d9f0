"""--- cultivar
name: leaves_out_the_last_tile
task: softmax
target: cuda
language: triton
about: "Leaves the last 64 columns out of the sum"
requires: "dtype == f32 && C <= 8192"
let:
  BLOCK: "C <= 1024 ? 1024 : 8192"
specialize: [dtype, BLOCK]
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    num_warps: 8
    args: [x, y, C]
---"""
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    mask = c < C
    value = tl.load(x + row * C + c, mask=mask, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    total = tl.sum(tl.where((c < C - 64) | (C <= 64), power, 0.0), 0)
    tl.store(y + row * C + c, power / total, mask=mask)
