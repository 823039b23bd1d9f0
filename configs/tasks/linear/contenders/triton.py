"""A linear layer in Triton as its tutorial has it: tiles of the output, grouped for the cache, with bias and gelu in the epilogue."""

import triton
import triton.language as tl


@triton.jit
def linear(x, w, bias, y, M, N, K, WITH_BIAS: tl.constexpr, GELU: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr,
           TILE_K: tl.constexpr, GROUP: tl.constexpr):
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
    b = w + n[None, :].to(tl.int64) * K + k[:, None]
    total = tl.zeros([TILE_M, TILE_N], tl.float32)
    for at in range(0, K, TILE_K):
        left = tl.load(a + at, mask=(m[:, None] < M) & (k[None, :] < K - at), other=0.0)
        right = tl.load(b + at, mask=(n[None, :] < N) & (k[:, None] < K - at), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    if WITH_BIAS:
        total += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    if GELU:  # v / 2 * (1 + tanh(u)) = v / (1 + exp(-2 u))
        total = total / (1.0 + tl.exp(-2.0 * 0.7978845608028654 * (total + 0.044715 * total * total * total)))
    tl.store(y + m[:, None].to(tl.int64) * N + n[None, :], total.to(y.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


def prepare(workload, tensors):
    if workload.target != "cuda":
        raise NotImplementedError("Triton kernels run on a GPU")
    M, N, K = workload.M, workload.N, workload.K

    def run(t, m, n, k, group, stages, warps):
        grid = (triton.cdiv(M, m) * triton.cdiv(N, n),)
        linear[grid](t["x"], t["w"], t["bias"], t["y"], M, N, K, WITH_BIAS=bool(workload.with_bias), GELU=bool(workload.gelu),
                     TILE_M=m, TILE_N=n, TILE_K=k, GROUP=group, num_stages=stages, num_warps=warps)

    settings = [(16, 64, 128, 1, 5, 4), (16, 32, 256, 1, 4, 4), (32, 64, 128, 1, 4, 4), (64, 64, 64, 8, 4, 4), (64, 128, 64, 8, 4, 4),
                (128, 128, 64, 8, 3, 8), (128, 128, 64, 8, 4, 4), (128, 256, 64, 8, 3, 8), (256, 128, 64, 8, 3, 8)]
    settings = [s for s in settings if s[0] <= max(16, 2 * M)]
    best = workload.fastest(lambda *setting: run(tensors, *setting), settings)
    return lambda t: run(t, *best)
