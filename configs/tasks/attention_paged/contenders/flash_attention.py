"""FlashAttention-3 on paged keys and values, if its Python package (flash_attn_interface) is installed."""

import torch


def prepare(workload, tensors):
    if workload.target != "cuda" or workload.dtype not in (torch.bfloat16, torch.float16):
        raise NotImplementedError("FlashAttention needs a GPU and bf16 or f16")
    try:
        from flash_attn_interface import flash_attn_with_kvcache as attention
    except ImportError as error:
        raise NotImplementedError("the package flash_attn_interface is not installed: %s" % error) from None

    def launch(tensors):
        made = attention(tensors["q"], tensors["k_pages"], tensors["v_pages"], cache_seqlens=tensors["lengths"],
                         page_table=tensors["page_table"], softmax_scale=workload.scale,
                         causal=bool(workload.causal), return_softmax_lse=True)
        return made[0], made[1]

    return launch
