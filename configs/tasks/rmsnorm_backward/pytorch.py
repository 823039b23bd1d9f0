"""rmsnorm_backward as PyTorch computes it, for the test of an export."""

import torch


def compute(dy, x, w, rstd):
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    scale = rstd.to(wide)[:, None]
    normed, gradient = x.to(wide) * scale, dy.to(wide) * w.to(wide)
    dx = scale * (gradient - normed * (gradient * normed).mean(dim=1, keepdim=True))
    dw = (dy.to(wide) * normed).sum(dim=0)
    return dx.to(x.dtype), dw.to(x.dtype)
