"""layernorm as PyTorch computes it, for the test of an export."""

import torch.nn.functional as functional


def compute(x, w, b, *, eps):
    return (functional.layer_norm(x, w.shape, w, b, eps),)


def replaces():
    """Functions of PyTorch that this computes: owner, name, and what turns their arguments into those of a kernel."""
    def adapter(input, normalized_shape, weight=None, bias=None, eps=1e-5):
        whole = len(normalized_shape) == 1 and weight is not None and bias is not None
        return ((input, weight, bias), {"eps": eps}) if whole else None
    return [(functional, "layer_norm", adapter)]
