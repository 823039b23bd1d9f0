"""group_norm_silu as PyTorch computes it, for the test of an export. PyTorch has no function that does both, and its group norm
alone is the task with silu = 0."""

import torch.nn.functional as functional


def compute(x, weight, bias, *, silu, eps):
    y = functional.group_norm(x.flatten(1, 2), x.shape[1], weight.flatten(), bias.flatten(), eps)
    return ((functional.silu(y) if silu else y).view(x.shape),)


def replaces():
    """Functions of PyTorch that this computes: owner, name, what turns their arguments into those of a kernel, and what makes their
    result of the kernel's output."""
    def adapter(input, num_groups, weight=None, bias=None, eps=1e-5):
        if input.dim() != 4 or not input.is_contiguous() or weight is None or bias is None:
            return None
        groups = (num_groups, input.shape[1] // num_groups)
        return (input.unflatten(1, groups), weight.view(groups), bias.view(groups)), {"silu": 0, "eps": eps}
    return [(functional, "group_norm", adapter, lambda results: results[0].flatten(1, 2))]
