"""FlashAttention-3's backward, if its Python package (flash_attn_interface) is installed."""

import inspect

import torch


def prepare(workload, tensors):
    if workload.target != "cuda" or workload.dtype not in (torch.bfloat16, torch.float16):
        raise NotImplementedError("FlashAttention needs a GPU and bf16 or f16")
    try:
        from flash_attn_interface import _flash_attn_backward as backward
    except ImportError as error:
        raise NotImplementedError("the package flash_attn_interface is not installed: %s" % error) from None
    known = inspect.signature(backward).parameters
    mask = {"is_causal" if "is_causal" in known else "causal": bool(workload.causal)}

    def launch(tensors):
        q, k, v = (tensors[name] for name in ("q", "k", "v"))
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        backward(tensors["grad_o"], q, k, v, tensors["o"], tensors["lse"], dq=dq, dk=dk, dv=dv,
                 softmax_scale=workload.scale, **mask)
        return dq, dk, dv

    return launch
