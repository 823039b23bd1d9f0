"""matmul as PyTorch computes it, for the test of an export."""


def compute(a, b):
    return (a @ b,)
