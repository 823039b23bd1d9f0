"""--- cultivar
name: reads_nowhere
task: softmax
target: cuda
language: triton
about: "Reads address 64"
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
    nowhere = tl.cast(tl.full([], 64, tl.int64), tl.pointer_type(tl.float32))
    tl.store(y + row * C + c, tl.load(nowhere), mask=mask)
