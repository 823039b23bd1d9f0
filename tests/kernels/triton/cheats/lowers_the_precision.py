"""--- cultivar
name: lowers_the_precision
task: softmax
target: cuda
language: triton
about: "Computes in bf16"
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
    value = value.to(tl.bfloat16).to(tl.float32)
    power = tl.exp(value - tl.max(value, 0))
    power = power.to(tl.bfloat16).to(tl.float32)
    tl.store(y + row * C + c, power / tl.sum(power, 0), mask=mask)
