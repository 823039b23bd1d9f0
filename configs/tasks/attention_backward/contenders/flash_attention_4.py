"""FlashAttention-4's backward (pip install --pre flash-attn-4: kernels in CuTe DSL), which is not deterministic."""

import torch


def prepare(workload, tensors):
    if workload.target != "cuda" or workload.dtype not in (torch.bfloat16, torch.float16):
        raise NotImplementedError("FlashAttention needs a GPU and bf16 or f16")
    try:
        from flash_attn.cute.interface import _flash_attn_bwd as backward
    except ImportError as error:
        raise NotImplementedError("the package flash-attn-4 is not installed: %s" % error) from None

    def launch(tensors):
        q, k, v, o, grad_o, lse = (tensors[name] for name in ("q", "k", "v", "o", "grad_o", "lse"))
        return backward(q, k, v, o, grad_o, lse, softmax_scale=workload.scale, causal=bool(workload.causal))[:3]

    return launch
