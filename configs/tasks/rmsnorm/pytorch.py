"""rmsnorm as PyTorch computes it, for the test of an export."""

import torch
import torch.nn.functional as functional


def compute(x, w, *, eps):
    if hasattr(functional, "rms_norm"):
        return (functional.rms_norm(x, w.shape, w, eps),)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return ((wide * torch.rsqrt(wide.square().mean(dim=1, keepdim=True) + eps) * w).to(x.dtype),)
