"""silu_mul as PyTorch computes it, for the test of an export."""

import torch.nn.functional as functional


def compute(gate, up):
    return (functional.silu(gate) * up,)
