"""gelu as PyTorch computes it, for the test of an export."""

import torch.nn.functional as functional


def compute(x, *, tanh_form):
    return (functional.gelu(x, approximate="tanh" if tanh_form else "none"),)
