"""Both products and the activation of SwiGLU in one Triton kernel: two accumulators for a tile of the output."""

import triton
import triton.language as tl


@triton.jit
def swiglu_up(x, w_gate, w_up, y, M, N, K, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr):
    # Programs of some rows of tiles follow each other, so that they find the other operand in the cache.
    wide, high = tl.cdiv(N, TILE_N), tl.cdiv(M, TILE_M)
    first = tl.program_id(0) // (GROUP * wide) * GROUP
    size = min(high - first, GROUP)
    row = first + tl.program_id(0) % (GROUP * wide) % size
    column = tl.program_id(0) % (GROUP * wide) // size
    m = row * TILE_M + tl.arange(0, TILE_M)
    n = column * TILE_N + tl.arange(0, TILE_N)
    k = tl.arange(0, TILE_K)
    a = x + m[:, None].to(tl.int64) * K + k[None, :]
    weights = n[None, :].to(tl.int64) * K + k[:, None]
    gate = tl.zeros([TILE_M, TILE_N], tl.float32)
    up = tl.zeros([TILE_M, TILE_N], tl.float32)
    for at in range(0, K, TILE_K):
        left = tl.load(a + at, mask=(m[:, None] < M) & (k[None, :] < K - at), other=0.0)
        inside = (n[None, :] < N) & (k[:, None] < K - at)
        gate = tl.dot(left, tl.load(w_gate + weights + at, mask=inside, other=0.0), gate, input_precision="ieee")
        up = tl.dot(left, tl.load(w_up + weights + at, mask=inside, other=0.0), up, input_precision="ieee")
    tl.store(y + m[:, None].to(tl.int64) * N + n[None, :], (gate / (1.0 + tl.exp(-gate)) * up).to(y.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


def prepare(workload, tensors):
    if workload.target != "cuda":
        raise NotImplementedError("Triton kernels run on a GPU")
    M, N, K = workload.M, workload.N, workload.K

    def run(t, m, n, k, group, stages, warps):
        grid = (triton.cdiv(M, m) * triton.cdiv(N, n),)
        swiglu_up[grid](t["x"], t["w_gate"], t["w_up"], t["y"], M, N, K, TILE_M=m, TILE_N=n, TILE_K=k, GROUP=group, num_stages=stages,
                        num_warps=warps)

    settings = [(16, 64, 128, 1, 5, 4), (16, 32, 256, 1, 4, 4), (32, 64, 128, 1, 4, 4), (64, 64, 64, 8, 4, 4), (64, 128, 64, 8, 4, 4),
                (128, 128, 64, 8, 3, 8), (128, 128, 64, 8, 4, 4), (128, 64, 64, 8, 4, 8)]
    settings = [s for s in settings if s[0] <= max(16, 2 * M)]
    best = workload.fastest(lambda *setting: run(tensors, *setting), settings)
    return lambda t: run(t, *best)
