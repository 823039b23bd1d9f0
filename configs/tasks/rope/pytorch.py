"""rope as PyTorch computes it, for the test of an export."""

import torch


def compute(q, k, positions, cos, sin):
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    c, s = (table[positions].to(wide)[:, None, :] for table in (cos, sin))

    def rotated(x):
        first, second = x.to(wide).chunk(2, dim=-1)
        return torch.cat([first * c - second * s, second * c + first * s], dim=-1).to(x.dtype)

    return rotated(q), rotated(k)
