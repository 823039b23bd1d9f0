# SPDX-License-Identifier: Apache-2.0
"""A norm with its residual, as a transformer's layer ends."""
import torch
import torch.nn as nn


class ResidualNorm(nn.Module):
    def __init__(self, width=4096, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width) + 0.1 * torch.randn(width)), eps

    def forward(self, x, residual):
        y = x + residual
        return y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps) * self.weight


def get_inputs():
    return [torch.randn(4096, 4096), torch.randn(4096, 4096)]
