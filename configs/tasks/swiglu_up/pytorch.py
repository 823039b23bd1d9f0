"""swiglu_up as PyTorch computes it, for the test of an export."""

import torch.nn.functional as functional


def compute(x, w_gate, w_up):
    return (functional.silu(functional.linear(x, w_gate)) * functional.linear(x, w_up),)
