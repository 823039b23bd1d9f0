"""FlashAttention-4 (pip install --pre flash-attn-4: kernels in CuTe DSL), with the fastest of its own settings for the shape."""

import torch


def prepare(workload, tensors):
    if workload.target != "cuda" or workload.dtype not in (torch.bfloat16, torch.float16):
        raise NotImplementedError("FlashAttention needs a GPU and bf16 or f16")
    if workload.softcap:
        raise NotImplementedError("FlashAttention-4 caps logits with tanh.approx, which is less exact")
    try:
        from flash_attn.cute import flash_attn_func as attention
    except ImportError as error:
        raise NotImplementedError("the package flash-attn-4 is not installed: %s" % error) from None
    fixed = {"softmax_scale": workload.scale, "causal": bool(workload.causal), "return_lse": True}
    if workload.window:
        fixed["window_size"] = (workload.window - 1, 0 if workload.causal else workload.window - 1)

    def call(tensors, splits, packed):
        return attention(tensors["q"], tensors["k"], tensors["v"], num_splits=splits, pack_gqa=packed, **fixed)[:2]

    # 0 splits: its own heuristic. Packed: all query heads of a key head in one tile.
    settings = [(splits, packed) for splits in (1, 0) for packed in ((None, True, False) if workload.H != workload.H_kv else (None,))]
    best = workload.fastest(lambda *setting: call(tensors, *setting), settings)
    return lambda tensors: call(tensors, *best)
