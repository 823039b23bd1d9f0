"""--- cultivar
name: writes_past_the_end
task: softmax
target: cuda
language: triton
about: "Writes four elements behind its output"
requires: "dtype == f32 && C <= 8192"
let:
  BLOCK: "C <= 1024 ? 1024 : 8192"
specialize: [dtype, BLOCK]
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    num_warps: 8
    args: [x, y, R, C]
---"""
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, R, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    mask = c < C
    value = tl.load(x + row * C + c, mask=mask, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * C + c, power / tl.sum(power, 0), mask=mask)
    if row == R - 1:
        tl.store(y + R.to(tl.int64) * C + tl.arange(0, 4), 1.0)
