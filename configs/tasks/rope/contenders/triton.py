"""Rotary positions in Triton: one program for some heads of a token, q and k in one kernel."""

import triton
import triton.language as tl


@triton.jit
def rope(q, k, positions, cos, sin, q_out, k_out, H, H_kv, E, HEADS: tl.constexpr, HALF: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    e = tl.arange(0, HALF)
    half = e < E
    row = tl.load(positions + token) * E
    c = tl.load(cos + row + e, mask=half, other=0.0)[None, :]
    s = tl.load(sin + row + e, mask=half, other=0.0)[None, :]
    at = (token * H + h)[:, None] * (2 * E) + e[None, :]
    inside = (h[:, None] < H) & half[None, :]
    first = tl.load(q + at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(q + at + E, mask=inside, other=0.0).to(tl.float32)
    tl.store(q_out + at, (first * c - second * s).to(q_out.dtype.element_ty), mask=inside)
    tl.store(q_out + at + E, (second * c + first * s).to(q_out.dtype.element_ty), mask=inside)
    at = (token * H_kv + h)[:, None] * (2 * E) + e[None, :]
    inside = (h[:, None] < H_kv) & half[None, :]
    first = tl.load(k + at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(k + at + E, mask=inside, other=0.0).to(tl.float32)
    tl.store(k_out + at, (first * c - second * s).to(k_out.dtype.element_ty), mask=inside)
    tl.store(k_out + at + E, (second * c + first * s).to(k_out.dtype.element_ty), mask=inside)


def prepare(workload, tensors):
    if workload.target != "cuda":
        raise NotImplementedError("Triton kernels run on a GPU")
    T, H, H_kv, E = workload.T, workload.H, workload.H_kv, workload.E
    most = max(H, H_kv)

    def run(t, heads, warps):
        rope[(T, triton.cdiv(most, heads))](t["q"], t["k"], t["positions"], t["cos"], t["sin"], t["q_out"], t["k_out"], H, H_kv, E,
                                            HEADS=heads, HALF=triton.next_power_of_2(E), num_warps=warps)

    settings = [(heads, warps) for heads in (1, 4, 8, 16, 32) if heads < 2 * most for warps in (1, 2, 4, 8)]
    best = workload.fastest(lambda *setting: run(tensors, *setting), settings)
    return lambda t: run(t, *best)
