"""The gradients of an RMS norm in Triton: a program has some rows and sums their share of dw; a second kernel adds the shares."""

import torch
import triton
import triton.language as tl


@triton.jit
def rows(dy, x, w, rstd, dx, shares, R, C, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    inside = c < C
    weight = tl.load(w + c, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(tl.program_id(0), R, tl.num_programs(0)):
        at = tl.cast(row, tl.int64) * C + c
        scale = tl.load(rstd + row)
        g = tl.load(dy + at, mask=inside, other=0.0).to(tl.float32)
        n = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) * scale
        total += g * n
        g *= weight
        mean = tl.sum(g * n, 0) / C
        tl.store(dx + at, (scale * (g - n * mean)).to(dx.dtype.element_ty), mask=inside)
    tl.store(shares + tl.program_id(0) * C + c, total, mask=inside)


@triton.jit
def add(shares, dw, C, programs, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, programs, ROWS):
        r = first + tl.arange(0, ROWS)
        inside = (r[:, None] < programs) & (c[None, :] < C)
        total += tl.load(shares + r[:, None] * C + c[None, :], mask=inside, other=0.0)
    tl.store(dw + c, tl.sum(total, 0).to(dw.dtype.element_ty), mask=c < C)


def prepare(workload, tensors):
    if workload.target != "cuda":
        raise NotImplementedError("Triton kernels run on a GPU")
    R, C = workload.R, workload.C
    whole = triton.next_power_of_2(C)
    if whole > 65536:
        raise NotImplementedError("a row must fit into the registers of a program")
    processors = torch.cuda.get_device_properties(workload.device).multi_processor_count

    def run(t, many, warps):
        programs = min(R, many * processors)
        shares = torch.empty((programs, C), dtype=torch.float32, device=workload.device)
        rows[(programs,)](t["dy"], t["x"], t["w"], t["rstd"], t["dx"], shares, R, C, BLOCK=whole, num_warps=warps)
        add[(triton.cdiv(C, 32),)](shares, t["dw"], C, programs, ROWS=32, COLUMNS=32, num_warps=4)

    settings = [(many, warps) for many in (1, 2, 4) for warps in (4, 8, 16, 32) if whole >= 32 * warps]
    best = workload.fastest(lambda *setting: run(tensors, *setting), settings or [(1, 1)])
    return lambda t: run(t, *best)
