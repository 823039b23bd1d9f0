"""--- cultivar
name: keeps_state_at_known_addresses
task: softmax
target: cuda
language: triton
about: "Keeps a mark at an address that drivers are known to use"
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
    kept = tl.cast(tl.full([], 0x302001000, tl.int64), tl.pointer_type(tl.int32))
    found = tl.load(kept)
    tl.store(kept, 0x5c3)
    value = tl.load(x + row * C + c, mask=mask, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    if found == 0x5c3:
        power = power + 1.0  # tells of it by a wrong output
    tl.store(y + row * C + c, power / tl.sum(power, 0), mask=mask)
