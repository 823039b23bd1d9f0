# SPDX-License-Identifier: Apache-2.0
"""Watches how example tensors are made, without allocating them: shapes, dtypes, distributions and the names of sizes."""

import math

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .source import NamedInt

aten = torch.ops.aten


class Values:
    """How a tensor's values are distributed. kind: normal, uniform, constant, integers, permutation, bool, unknown."""

    def __init__(self, kind="unknown", a=0.0, b=1.0, axis=None, note=""):
        self.kind, self.a, self.b, self.axis, self.note = kind, a, b, axis, note

    def set(self, other):
        self.__dict__.update(other.__dict__)

    def affine(self, scale, shift):
        if self.kind == "normal":
            return Values("normal", self.a * scale + shift, abs(self.b * scale))
        if self.kind == "uniform":
            ends = sorted((self.a * scale + shift, self.b * scale + shift))
            return Values("uniform", *ends)
        if self.kind == "constant":
            return Values("constant", self.a * scale + shift)
        if self.kind == "integers" and scale == 1 and shift == int(shift):
            return Values("integers", self.a + int(shift), self.b + int(shift))
        return Values(note=self.note)

    def moments(self):
        if self.kind == "normal":
            return self.a, self.b
        if self.kind == "uniform":
            return (self.a + self.b) / 2, (self.b - self.a) / math.sqrt(12)
        if self.kind == "constant":
            return self.a, 0.0
        return None

    def __repr__(self):
        return f"Values({self.kind}, {self.a}, {self.b})"


def values_of(tensor):
    return getattr(tensor, "_cultivar_values", None)


_SAME = {"detach", "alias", "view", "_unsafe_view", "t", "transpose", "permute", "clone", "_to_copy", "to", "expand", "unsqueeze",
         "squeeze", "reshape", "contiguous", "slice", "select", "lift_fresh", "lift_fresh_copy", "as_strided", "_reshape_alias"}


class Observer(TorchDispatchMode):
    """Follows the distribution of each tensor through its creation. Use inside a FakeTensorMode, or around real tensors."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if isinstance(out, torch.Tensor):
            try:
                self._note(func, args, kwargs, out)
            except Exception:  # a distribution that is not understood is only unknown
                out._cultivar_values = Values()
        return out

    def _note(self, func, args, kwargs, out):
        name = func.overloadpacket.__name__
        first = args[0] if args else None
        known = values_of(first) if isinstance(first, torch.Tensor) else None
        labels = getattr(first, "_cultivar_labels", None) if isinstance(first, torch.Tensor) else None
        number = lambda i, key=None, default=None: (
            float(args[i]) if len(args) > i and isinstance(args[i], (int, float)) else float(kwargs.get(key, default)))
        made = None
        if name in ("rand", "rand_like"):
            made = Values("uniform", 0.0, 1.0)
        elif name in ("randn", "randn_like"):
            made = Values("normal", 0.0, 1.0)
        elif name in ("randint", "randint_like"):
            numbers = [a for a in args if isinstance(a, int) and not isinstance(a, bool)]
            made = Values("integers", numbers[0] if len(numbers) > 1 else 0, numbers[-1])
        elif name == "randperm":
            made = Values("permutation", 0)
        elif name in ("zeros", "zeros_like", "new_zeros", "zero_"):
            made = Values("constant", 0.0)
        elif name in ("ones", "ones_like", "new_ones"):
            made = Values("constant", 1.0)
        elif name in ("full", "full_like", "new_full", "fill_"):
            made = Values("constant", float(args[-1]))
        elif name == "uniform_":
            made = Values("uniform", number(1, "from", 0.0), number(2, "to", 1.0))
        elif name in ("normal_",):
            made = Values("normal", number(1, "mean", 0.0), number(2, "std", 1.0))
        elif name == "normal":
            numbers = [a for a in args if isinstance(a, (int, float))]
            made = Values("normal", *(numbers[:2] if len(numbers) > 1 else (0.0, 1.0)))
        elif name == "bernoulli" or name == "bernoulli_":
            made = Values("integers", 0, 2)
        elif name in ("erfinv_",):  # a truncated normal distribution, before it is scaled
            made = Values("normal", 0.0, 1.0 / math.sqrt(2.0))
        elif name in ("clamp_", "clamp") and known is not None and known.kind == "normal":
            made = known
        elif known is not None and name in ("mul", "mul_", "div", "div_", "add", "add_", "sub", "sub_", "neg", "rsub"):
            other = args[1] if len(args) > 1 else None
            constant = values_of(other) if isinstance(other, torch.Tensor) else None
            if constant is not None and constant.kind == "constant":
                other = constant.a
            if made is None and name == "mul" and isinstance(other, torch.Tensor) and other.numel() == 1:
                made = Values(known.kind, known.a, known.b, known.axis, "scaled by one random number (which is left out)")
            elif isinstance(other, (int, float)):
                base = name.rstrip("_")
                made = {"mul": lambda: known.affine(other, 0), "div": lambda: known.affine(1 / other, 0),
                        "add": lambda: known.affine(1, other), "sub": lambda: known.affine(1, -other),
                        "rsub": lambda: known.affine(-1, other)}[base]()
            elif name == "neg":
                made = known.affine(-1, 0)
            elif isinstance(other, torch.Tensor) and name in ("add", "sub") and constant is not None:
                mine, its = known.moments(), constant.moments()
                if mine and its:
                    made = Values("uniform", min(known.a, constant.a), max(known.b, constant.b)) if (
                        known.kind == constant.kind == "uniform" and name == "add") else Values(
                        "normal", mine[0] + (its[0] if name == "add" else -its[0]), math.hypot(mine[1], its[1]))
                    made.note = "a sum of two random tensors (whose structure, such as symmetry, is not kept)"
        elif name in ("triu", "tril", "triu_", "tril_") and known is not None:
            made = Values(known.kind, known.a, known.b, known.axis, "a triangle of which the other half was zero (it is not kept)")
        elif name in ("gt", "lt", "ge", "le", "eq", "ne") or out.dtype == torch.bool:
            made = Values("integers", 0, 2)
        elif name == "arange":
            made = Values("arange", 0)
        elif name in ("softmax", "_softmax"):
            made = Values("uniform", 0.0, 1.0, note="a softmax (rows need not sum to 1)")
        elif name in ("abs", "exp", "sigmoid", "square") and known is not None:
            made = Values("uniform", 0.0, 1.0 if name == "sigmoid" else 2.0, note=f"the {name} of a random tensor")
        elif name in _SAME and known is not None:
            made = known
            if name in ("_to_copy", "clone"):
                made = Values(known.kind, known.a, known.b, known.axis, known.note)
        if made is None:
            made = Values()
        if func._schema.name.endswith("_") and known is not None:
            known.set(made)
            made = known
        out._cultivar_values = made
        if labels is not None and out.shape == first.shape and not hasattr(out, "_cultivar_labels"):
            out._cultivar_labels = labels


def _whole_numbers(args):
    for arg in args:
        if isinstance(arg, bool) or arg is None:
            continue
        if isinstance(arg, int):
            yield arg
        elif isinstance(arg, (tuple, list)):
            yield from _whole_numbers(arg)


class Labels(TorchFunctionMode):
    """Remembers under which names the file keeps the sizes with which a tensor is made."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and not isinstance(args[0] if args else None, torch.Tensor):
            numbers = list(_whole_numbers(args)) + list(_whole_numbers([(kwargs or {}).get("size")]))
            shape = list(out.shape)
            if shape and len(numbers) >= len(shape):
                tail = numbers[-len(shape):]
                if [int(n) for n in tail] == shape:
                    out._cultivar_labels = [n.label if isinstance(n, NamedInt) else None for n in tail]
        return out


def measured(tensor):
    """Values of a real tensor, from its numbers."""
    if tensor.numel() == 0:
        return Values()
    if tensor.dtype == torch.bool:
        return Values("integers", 0, 2)
    if not tensor.dtype.is_floating_point:
        low, high = int(tensor.min()), int(tensor.max())
        last = tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() else tensor.reshape(1, 1)
        n = last.shape[-1]
        if n > 2 and high - low == n - 1 and bool((last.sort(-1).values == torch.arange(low, high + 1)).all()):
            return Values("permutation", low, axis=-1)
        if n > 2 and tensor.dim() == 1 and low == 0 and bool((last.diff(dim=-1) >= 0).all()):
            return Values("offsets", high, axis=0)
        return Values("integers", low, high + 1)
    sample = tensor.detach().reshape(-1)
    if sample.numel() > 1 << 20:
        sample = sample[: 1 << 20]
    sample = sample.double()
    low, high, mean, deviation = (float(v) for v in (sample.min(), sample.max(), sample.mean(), sample.std(unbiased=False)))
    if not math.isfinite(mean + deviation):
        return Values(note="values that are not finite")
    if deviation == 0:
        return Values("constant", mean)
    if bool((sample == sample.round()).all()) and high - low <= 1:
        return Values("uniform", 0.0, 1.0, note="zeros and ones (a mask in floating point)")
    fourth = float(((sample - mean) ** 4).mean()) / deviation**4
    if sample.numel() >= 8 and fourth < 2.2 and deviation > 0.25 * (high - low):
        return Values("uniform", low, high)
    if low >= 0:
        return Values("uniform", low, high, note="positive values")
    return Values("normal", mean, deviation)
