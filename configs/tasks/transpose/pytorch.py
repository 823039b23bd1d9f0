"""transpose as PyTorch computes it, for the test of an export."""


def compute(x):
    return (x.transpose(1, 2).contiguous(),)
