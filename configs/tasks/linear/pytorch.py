"""linear as PyTorch computes it, for the test of an export."""

import torch.nn.functional as functional


def compute(x, w, bias, *, with_bias, gelu):
    y = functional.linear(x, w, bias if with_bias else None)
    return (functional.gelu(y, approximate="tanh") if gelu else y,)
