"""FlashAttention-4 on paged keys and values (pip install --pre flash-attn-4), with the fastest of its own settings for the shape."""

import torch


def prepare(workload, tensors):
    if workload.target != "cuda" or workload.dtype not in (torch.bfloat16, torch.float16):
        raise NotImplementedError("FlashAttention needs a GPU and bf16 or f16")
    try:
        from flash_attn.cute import flash_attn_varlen_func as attention
    except ImportError as error:
        raise NotImplementedError("the package flash-attn-4 is not installed: %s" % error) from None

    def call(tensors, splits, packed):
        return attention(tensors["q"], tensors["k_pages"], tensors["v_pages"], seqused_k=tensors["lengths"],
                         page_table=tensors["page_table"], softmax_scale=workload.scale, causal=bool(workload.causal),
                         num_splits=splits, pack_gqa=packed, return_lse=True)[:2]

    # 0 splits: its own heuristic. Packed: all query heads of a key head in one tile.
    settings = [(splits, packed) for splits in (1, 0) for packed in ((None, True, False) if workload.H != workload.H_kv else (None,))]
    # A length of 0, as in the tensors of prepare, is none that a timed run has.
    sample = {**tensors, "lengths": torch.full_like(tensors["lengths"], workload.M * workload.PAGE)}
    best = workload.fastest(lambda *setting: call(sample, *setting), settings)
    return lambda tensors: call(tensors, *best)
