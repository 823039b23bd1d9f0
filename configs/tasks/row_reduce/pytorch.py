"""row_reduce as PyTorch computes it, for the test of an export."""

import torch


def compute(x):
    return (torch.sum(x, dim=1, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32),)
