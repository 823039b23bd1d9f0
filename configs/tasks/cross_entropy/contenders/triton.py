"""Cross entropy and its gradient in one Triton kernel, as Liger has it: a running maximum and sum, then the gradient."""

import triton
import triton.language as tl


@triton.jit
def cross_entropy(logits, targets, loss, dlogits, V, ignore_index, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row)
    counts = target != ignore_index
    top = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, V, BLOCK):
        c = first + tl.arange(0, BLOCK)
        v = tl.load(logits + row * V + c, mask=c < V, other=-3.0e38).to(tl.float32)
        higher = tl.maximum(top, v)
        total = total * tl.exp(top - higher) + tl.where(c < V, tl.exp(v - higher), 0.0)
        top = higher
    most = tl.max(top, 0)
    total = tl.sum(total * tl.exp(top - most), 0)
    chosen = tl.load(logits + row * V + target, mask=counts, other=0.0).to(tl.float32)
    tl.store(loss + row, tl.where(counts, tl.log(total) + (most - chosen), 0.0))
    for first in range(0, V, BLOCK):
        c = first + tl.arange(0, BLOCK)
        v = tl.load(logits + row * V + c, mask=c < V, other=0.0).to(tl.float32)
        gradient = tl.exp(v - most) / total - tl.where(c == target, 1.0, 0.0)
        tl.store(dlogits + row * V + c, tl.where(counts, gradient, 0.0).to(dlogits.dtype.element_ty), mask=c < V)


def prepare(workload, tensors):
    if workload.target != "cuda":
        raise NotImplementedError("Triton kernels run on a GPU")
    R, V = workload.R, workload.V

    def run(t, block, warps):
        cross_entropy[(R,)](t["logits"], t["targets"], t["loss"], t["dlogits"], V, workload.ignore_index, BLOCK=block,
                            num_warps=warps)

    settings = [(block, warps) for block, warps in ((1024, 4), (2048, 8), (4096, 8), (8192, 16), (16384, 32), (32768, 32))]
    best = workload.fastest(lambda *setting: run(tensors, *setting), settings)
    return lambda t: run(t, *best)
