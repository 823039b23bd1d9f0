"""group_norm_silu as PyTorch computes it, for the test of an export. PyTorch has no function that does both, and its group norm
alone is the task with silu = 0."""

import torch.nn.functional as functional


def compute(x, weight, bias, *, G, silu, eps):
    y = functional.group_norm(x, G, weight, bias, eps)
    return (functional.silu(y) if silu else y,)


def replaces():
    """Functions of PyTorch that this computes: owner, name, and what turns their arguments into those of a kernel."""
    def adapter(input, num_groups, weight=None, bias=None, eps=1e-5):
        if input.dim() != 4 or not input.is_contiguous() or weight is None or bias is None:
            return None
        return (input, weight, bias), {"G": num_groups, "silu": 0, "eps": eps}
    return [(functional, "group_norm", adapter)]
