"""Transposition in Triton by tiles, with the fastest tile of the shape."""

import triton
import triton.language as tl


@triton.jit
def transpose(x, y, R, C, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    matrix = tl.program_id(2).to(tl.int64) * R * C
    r = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    c = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)
    inside = (r[:, None] < R) & (c[None, :] < C)
    tile = tl.load(x + matrix + r[:, None] * C + c[None, :], mask=inside, other=0.0)
    tl.store(y + matrix + c[:, None] * R + r[None, :], tl.trans(tile), mask=(c[:, None] < C) & (r[None, :] < R))


def prepare(workload, tensors):
    if workload.target != "cuda":
        raise NotImplementedError("Triton kernels run on a GPU")
    B, R, C = workload.B, workload.R, workload.C

    def run(t, rows, columns, warps):
        grid = (triton.cdiv(C, columns), triton.cdiv(R, rows), B)
        transpose[grid](t["x"], t["y"], R, C, ROWS=rows, COLUMNS=columns, num_warps=warps)

    settings = [(r, c, w) for r, c in ((32, 32), (64, 64), (32, 128), (128, 32), (128, 64), (64, 128)) for w in (4, 8)]
    best = workload.fastest(lambda *setting: run(tensors, *setting), settings)
    return lambda t: run(t, *best)
