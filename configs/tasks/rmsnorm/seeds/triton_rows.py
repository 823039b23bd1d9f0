"""--- cultivar
name: triton_rows
task: rmsnorm
target: cuda
language: triton
about: "One program per row: at once if the row fits into BLOCK, else the sum of squares, then a second pass"
tunables:
  BLOCK: {values: [1024, 2048, 4096, 8192], default: 4096}
  WARPS: {values: [2, 4, 8, 16], default: 8}
let:
  aligned: "C % 16 == 0"
  whole: "C <= BLOCK"
specialize: [dtype, aligned, whole]
launch:
  - kernel: rmsnorm_rows
    grid: [R, 1, 1]
    num_warps: WARPS
    args: [x, w, y, C, eps]
---"""
import triton
import triton.language as tl


@triton.jit
def scale_of(squares, C, eps):
    return 1.0 / tl.sqrt(tl.sum(squares, 0) / C + eps)


@triton.jit
def rmsnorm_rows(x, w, y, C, eps, BLOCK: tl.constexpr, DTYPE: tl.constexpr, whole: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * C
    c = tl.arange(0, BLOCK)
    if whole:
        value = tl.load(x + first + c, mask=c < C, other=0.0).to(tl.float32)
        weight = tl.load(w + c, mask=c < C, other=0.0).to(tl.float32)
        tl.store(y + first + c, (value * scale_of(value * value, C, eps) * weight).to(DTYPE), mask=c < C)
    else:
        squares = tl.zeros([BLOCK], tl.float32)
        for start in range(0, C, BLOCK):
            value = tl.load(x + first + start + c, mask=start + c < C, other=0.0).to(tl.float32)
            squares += value * value
        scale = scale_of(squares, C, eps)
        for start in range(0, C, BLOCK):
            value = tl.load(x + first + start + c, mask=start + c < C, other=0.0).to(tl.float32)
            weight = tl.load(w + start + c, mask=start + c < C, other=0.0).to(tl.float32)
            tl.store(y + first + start + c, (value * scale * weight).to(DTYPE), mask=start + c < C)
