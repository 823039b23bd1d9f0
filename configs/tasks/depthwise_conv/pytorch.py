"""depthwise_conv as PyTorch computes it, for the test of an export."""

import torch
import torch.nn.functional as functional


def compute(x, weight, bias, *, causal, silu):
    channels, rows, columns = weight.shape
    image = x.permute(0, 3, 1, 2)  # the same memory, which PyTorch calls channels_last
    left = columns - 1 if causal else (columns - 1) // 2
    top = (rows - 1) // 2
    right, bottom = columns - 1 - left, rows - 1 - top
    padding = (top, left)
    if (top, left) != (bottom, right):
        image, padding = functional.pad(image, (left, right, top, bottom)), 0
    y = functional.conv2d(image, weight[:, None], bias, padding=padding, groups=channels)
    return ((functional.silu(y) if silu else y).permute(0, 2, 3, 1).contiguous(),)


def replaces():
    """Functions of PyTorch that this computes: owner, name, what turns their arguments into those of a kernel, and what makes their
    result of the kernel's output."""
    def adapter(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if input.dim() != 4 or groups != input.shape[1] or weight.shape[:2] != (groups, 1):
            return None
        if any(each not in (1, (1, 1), [1, 1]) for each in (stride, dilation)):
            return None
        rows, columns = weight.shape[2:]
        if padding != "same":  # of an even kernel it is what the task has; numbers pad both sides alike
            pads = (padding, padding) if isinstance(padding, int) else tuple(padding)
            if rows % 2 == 0 or columns % 2 == 0 or pads not in (((rows - 1) // 2, (columns - 1) // 2),):
                return None
        x = input.permute(0, 2, 3, 1)
        if not x.is_contiguous():
            return None  # another layout than channels_last
        return (x, weight[:, 0].contiguous(), input.new_zeros(groups) if bias is None else bias), {"causal": 0, "silu": 0}
    return [(functional, "conv2d", adapter, lambda results: results[0].permute(0, 3, 1, 2))]
