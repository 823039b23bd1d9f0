"""gelu as PyTorch computes it, for the test of an export."""

import torch.nn.functional as functional


def compute(x, *, tanh_form):
    return (functional.gelu(x, approximate="tanh" if tanh_form else "none"),)


def replaces():
    """Functions of PyTorch that this computes: owner, name, and what turns their arguments into those of a kernel."""
    def adapter(input, approximate="none"):
        return (input,), {"tanh_form": approximate == "tanh"}
    return [(functional, "gelu", adapter)]
