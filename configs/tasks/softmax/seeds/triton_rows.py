"""--- cultivar
name: triton_rows
task: softmax
target: cuda
language: triton
about: "One program per row: at once if the row fits into BLOCK, else a running maximum and sum, then a second pass"
tunables:
  BLOCK: {values: [1024, 2048, 4096, 8192], default: 4096}
  WARPS: {values: [2, 4, 8, 16], default: 8}
let:
  aligned: "C % 16 == 0"
  whole: "C <= BLOCK"
specialize: [dtype, aligned, whole]
launch:
  - kernel: softmax_rows
    grid: [R, 1, 1]
    num_warps: WARPS
    args: [x, y, C]
---"""
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, C, BLOCK: tl.constexpr, DTYPE: tl.constexpr, whole: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * C
    c = tl.arange(0, BLOCK)
    if whole:
        value = tl.load(x + first + c, mask=c < C, other=-float("inf")).to(tl.float32)
        power = tl.exp(value - tl.max(value, 0))
        tl.store(y + first + c, (power / tl.sum(power, 0)).to(DTYPE), mask=c < C)
    else:
        top = tl.full([BLOCK], -float("inf"), tl.float32)  # of each lane
        total = tl.zeros([BLOCK], tl.float32)
        for start in range(0, C, BLOCK):
            value = tl.load(x + first + start + c, mask=start + c < C, other=-float("inf")).to(tl.float32)
            higher = tl.maximum(top, value)
            # A lane that has had no value yet keeps its sum of 0.
            kept = tl.where(higher == -float("inf"), 0.0, higher)
            total = total * tl.exp(top - kept) + tl.exp(value - kept)
            top = higher
        highest = tl.max(top, 0)
        scale = 1.0 / tl.sum(total * tl.exp(top - highest), 0)
        for start in range(0, C, BLOCK):
            value = tl.load(x + first + start + c, mask=start + c < C, other=-float("inf")).to(tl.float32)
            tl.store(y + first + start + c, (tl.exp(value - highest) * scale).to(DTYPE), mask=start + c < C)
