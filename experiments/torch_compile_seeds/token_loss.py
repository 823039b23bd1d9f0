# SPDX-License-Identifier: Apache-2.0
"""The negative log likelihood of each token."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TokenLoss(nn.Module):
    def forward(self, logits, targets):
        return F.cross_entropy(logits, targets, reduction="none")


def get_inputs():
    return [torch.randn(2048, 32000), torch.randint(0, 32000, (2048,))]
