# SPDX-License-Identifier: Apache-2.0
"""Traces a pure PyTorch function with dynamic shapes and says what its sizes are.

trace(function, example_inputs, input_names) gives a Traced: a graph of core ATen operations whose shapes are expressions over
named dimensions, the inputs and outputs with their shapes, the relations that the sizes must satisfy, and a count of
operations. Nothing is computed: the function runs on fake tensors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import keyword
import math
import operator
import re
from typing import Any, Callable

import sympy
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.utils._sympy import functions as symbolic
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode

aten = torch.ops.aten


class TraceError(Exception):
    """The function cannot be traced; the message says why."""


@dataclasses.dataclass
class TensorInfo:
    name: str
    dtype: str  # as in a task: f32, f16, bf16, f64, i64, i32, i16, i8, u8 (also for bool)
    shape: list  # names of dimensions and whole numbers
    is_bool: bool = False


@dataclasses.dataclass
class Dimension:
    name: str
    value: int  # in the example
    about: str = ""
    default: str | None = None  # an expression over the dimensions before it: a derived dimension


@dataclasses.dataclass
class Traced:
    graph: torch.fx.GraphModule  # placeholders in the order of the inputs; node.meta["val"] has fake tensors
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    dims: dict[str, int]  # every dimension, derived ones included: its value in the example
    dimensions: list[Dimension]  # the same with texts; derived ones last
    relations: list[str]  # in the task format's expressions
    flops: str  # an expression over the dimensions
    dtype: str  # that of the workload: of the first floating input
    dynamic: str  # "all", "batch" or "none": which axes were taken as dynamic
    returns_tuple: bool = False
    notes: list[str] = dataclasses.field(default_factory=list)
    # A map from the tracer's symbols to symbols with the dimensions' names.
    _names: dict = dataclasses.field(default_factory=dict)
    _environment: Any = None
    _divisible: list = dataclasses.field(default_factory=list)  # pairs: the first is a multiple of the second

    def expression(self, size) -> sympy.Expr:
        """A size or scalar of the graph (int, float, SymInt, SymFloat, SymBool, sympy) in terms of named symbols."""
        if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            size = size.node.expr
        if isinstance(size, bool):
            return sympy.true if size else sympy.false
        if isinstance(size, int):
            return sympy.Integer(size)
        if isinstance(size, float):
            return sympy.Float(size)
        return self._whole(self._environment.replace(size).xreplace(self._names))

    def _whole(self, e):
        """4 * floor_div(C, 4) is C if C % 4 == 0 is known."""
        if not self._divisible or not e.has(symbolic.FloorDiv):
            return e
        replaced = e.xreplace({symbolic.FloorDiv(a, b): a / b for a, b in self._divisible})
        if replaced == e:
            return e
        replaced = sympy.expand(replaced)
        if any(not isinstance(r, sympy.Integer) for r in replaced.atoms(sympy.Rational)):
            return e
        return replaced

    def size(self, size, style: str = "cpp") -> str:
        """A size as text: style "cpp" for C++ (64-bit whole numbers; it may call
        floor_quotient(a, b)), "task" for the task format."""
        expression = self.expression(size)
        return to_cpp(expression) if style == "cpp" else to_task(expression)

    def shape(self, value) -> list[sympy.Expr]:
        """The sizes of a fake tensor in terms of named symbols."""
        return [self.expression(s) for s in value.shape]


# ---------------------------------------------------------------------------------------------------------------------
# Expressions as text


class _Printer:
    """Prints an expression. Every result that is not an atom is in parentheses where that matters."""

    compare = {
        sympy.Eq: "==",
        sympy.Ne: "!=",
        sympy.Lt: "<",
        sympy.Le: "<=",
        sympy.Gt: ">",
        sympy.Ge: ">=",
    }

    def __init__(self, style: str):
        self.cpp = style == "cpp"

    def __call__(self, e) -> str:
        return self.text(sympy.sympify(e), 0)

    def text(self, e, level: int) -> str:
        # Levels: 0 anything, 1 operand of a comparison, 2 operand of +, 3 operand of * and /, 4 atom.
        def wrap(own: int, s: str) -> str:
            return f"({s})" if own < level else s

        name = type(e).__name__
        if e is sympy.true or e is sympy.false:
            return "1" if e is sympy.true else "0"
        if isinstance(e, sympy.Symbol):
            return kernel_name(e.name) if self.cpp and e.is_positive else e.name  # variables of loops may be 0
        if isinstance(e, sympy.Integer):
            n = int(e)
            s = str(n) + ("LL" if self.cpp and abs(n) > 2**31 - 1 else "")
            return wrap(4, s) if n >= 0 else wrap(2, s)
        if isinstance(e, sympy.Rational):
            if self.cpp:
                return wrap(3, f"{int(e.p)}.0 / {int(e.q)}.0")
            return wrap(3, f"{int(e.p)} / {int(e.q)}")
        if isinstance(e, (sympy.Float, sympy.core.numbers.NumberSymbol)):
            s = repr(float(e))
            return wrap(4 if float(e) >= 0 else 2, s)
        if isinstance(e, sympy.Add):
            terms = sorted(e.args, key=lambda t: (t.could_extract_minus_sign(), isinstance(t, sympy.Number)))
            s = ""
            for t in terms:
                if s and t.could_extract_minus_sign():
                    s += " - " + self.text(-t, 3)
                else:
                    s += (" + " if s else "") + self.text(t, 2 if not s else 2)
            return wrap(2, s)
        if isinstance(e, sympy.Mul):
            if e.could_extract_minus_sign() and e.args[0] == -1:
                return wrap(2, "-" + self.text(-e, 3))
            top, bottom = [], []
            for f in e.args:
                if isinstance(f, sympy.Pow) and f.exp.is_number and f.exp.is_negative:
                    bottom.append(sympy.Pow(f.base, -f.exp))
                elif isinstance(f, sympy.Rational) and not isinstance(f, sympy.Integer):
                    if f.p != 1:
                        top.append(sympy.Integer(f.p))
                    bottom.append(sympy.Integer(f.q))
                else:
                    top.append(f)
            s = " * ".join(self.text(f, 4 if isinstance(f, (sympy.Add,)) or type(f).__name__ in ("Mod", "PythonMod", "FloorDiv", "CleanDiv") else 3) for f in top) or ("1.0" if self.cpp else "1")
            if bottom:
                divisor = " * ".join(self.text(f, 4) for f in bottom)
                if self.cpp:
                    s = f"(double)({s})"
                s += f" / ({divisor})"
            return wrap(3, s)
        if isinstance(e, sympy.Pow) or name in ("PowByNatural", "FloatPow"):
            base, power = e.args
            if power == sympy.Rational(1, 2):
                return f"sqrt({self.text(base, 0)})" if not self.cpp else f"sqrt((double)({self.text(base, 0)}))"
            if power == sympy.Rational(-1, 2):
                return wrap(3, f"1 / sqrt({self.text(base, 0)})" if not self.cpp else f"1.0 / sqrt((double)({self.text(base, 0)}))")
            if power.is_Integer and 1 <= int(power) <= 8 and self.cpp:
                return wrap(3, " * ".join([self.text(base, 4)] * int(power)))
            if power.is_Integer and int(power) < 0:
                one = "1.0" if self.cpp else "1"
                return wrap(3, f"{one} / {self.text(sympy.Pow(base, -power), 4)}")
            if self.cpp:
                return f"pow((double)({self.text(base, 0)}), (double)({self.text(power, 0)}))"
            return wrap(3, f"{self.text(base, 4)} ^ {self.text(power, 4)}")
        if name in ("FloorDiv", "CleanDiv"):
            a, b = e.args
            if self.cpp and a.is_nonnegative:
                return wrap(3, f"{self.text(a, 4)} / {self.text(b, 4)}")
            if self.cpp:
                return f"floor_quotient({self.text(a, 0)}, {self.text(b, 0)})"
            return f"floor_div({self.text(a, 0)}, {self.text(b, 0)})"
        if name == "CeilDiv":
            a, b = e.args
            if self.cpp:
                return wrap(3, f"({self.text(a, 2)} + {self.text(b, 2)} - 1) / {self.text(b, 4)}")
            return f"ceil_div({self.text(a, 0)}, {self.text(b, 0)})"
        if name in ("Mod", "PythonMod"):
            a, b = e.args
            return wrap(3, f"{self.text(a, 4)} % {self.text(b, 4)}")
        if name == "ModularIndexing":
            a, d, m = e.args
            return self.text(symbolic.Mod(symbolic.FloorDiv(a, d), m), level)
        if name in ("Max", "Min"):
            word = name.lower()
            args = list(e.args)
            s = self.text(args[0], 0 if not self.cpp else 2)
            for a in args[1:]:
                t = self.text(a, 0 if not self.cpp else 2)
                if self.cpp:
                    s = f"({s} {'>' if word == 'max' else '<'} {t} ? {s} : {t})"
                else:
                    s = f"{word}({s}, {t})"
            return s
        if name in ("IntTrueDiv", "FloatTrueDiv"):
            a, b = e.args
            if self.cpp:
                return wrap(3, f"(double)({self.text(a, 0)}) / (double)({self.text(b, 0)})")
            return wrap(3, f"{self.text(a, 4)} / {self.text(b, 4)}")
        if name in ("ToFloat", "Identity"):
            return f"(double)({self.text(e.args[0], 0)})" if self.cpp and name == "ToFloat" else self.text(e.args[0], level)
        if name in ("CeilToInt", "ceiling"):
            s = f"ceil({self.text(e.args[0], 0)})"
            return f"(long long){s}" if self.cpp else s
        if name in ("FloorToInt", "floor", "TruncToInt", "TruncToFloat"):
            s = f"floor({self.text(e.args[0], 0)})"
            return f"(long long){s}" if self.cpp else s
        if name == "Abs":
            return f"abs({self.text(e.args[0], 0)})" if not self.cpp else f"fabs((double)({self.text(e.args[0], 0)}))"
        if name.startswith("OpaqueUnaryFn_"):
            word = name[len("OpaqueUnaryFn_"):]
            if self.cpp:
                return f"{word}((double)({self.text(e.args[0], 0)}))"
            if word in ("sqrt", "floor", "ceil", "log2"):
                return f"{word}({self.text(e.args[0], 0)})"
        if name == "Where":
            c, a, b = e.args
            return f"({self.text(c, 1)} ? {self.text(a, 1)} : {self.text(b, 1)})"
        if type(e) in self.compare:
            return wrap(1, f"{self.text(e.args[0], 2)} {self.compare[type(e)]} {self.text(e.args[1], 2)}")
        if isinstance(e, sympy.And):
            return wrap(0, " && ".join(self.text(a, 4 if not isinstance(a, sympy.Symbol) else 4) for a in e.args))
        if isinstance(e, sympy.Or):
            return "(" + " || ".join(self.text(a, 4) for a in e.args) + ")"
        if isinstance(e, sympy.Not):
            return f"!({self.text(e.args[0], 0)})"
        raise TraceError(f"an expression has no text: {name} in {e}")


# Words of C++, of its library, and of the generated kernels' own text (`size_0` names a part of a size there).
_KERNEL_WORDS = set(
    "thread threads first last total unit row from to strips infinity part sums outputs each int float double long short char bool "
    "const auto new this class struct for if do while else return void template operator default switch case i64 exp log pow sqrt sin "
    "cos tan y0 y1 j0 j1 yn jn gamma signed unsigned width depth columns factor best where left top end low high element half mine "
    "other larger smaller smaller_of greater ahead widened narrowed quotient_up floor_quotient not_a_number index".split())
_KERNEL_PATTERN = re.compile(r"(size|space|table|sums?|parts?)_?\d*|erf.*|exp.*|log.*|[a-z]{1,2}\d*")


def is_kernel_word(name: str) -> bool:
    return name in _KERNEL_WORDS or bool(_KERNEL_PATTERN.fullmatch(name))


def kernel_name(dimension: str) -> str:
    """A dimension's name in generated kernels."""
    return f"n_{dimension}" if is_kernel_word(dimension) and not re.fullmatch(r"size_\d+", dimension) else dimension


def to_cpp(expression) -> str:
    return _Printer("cpp")(expression)


def to_task(expression) -> str:
    return _Printer("task")(expression)


# ---------------------------------------------------------------------------------------------------------------------
# Operations that are kept whole. Their shapes are computed here, without the conditions that the usual ones add.

_library = torch.library.Library("cultivar", "DEF")
_library.define(
    "convolution(Tensor x, Tensor w, Tensor? b, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
    "SymInt[] output_padding, SymInt groups) -> Tensor"
)
# mode: 0 maximum, 1 average. The outputs: values, and for a maximum the indices.
_library.define(
    "pool(Tensor x, int[] kernel, int[] stride, int[] padding, int[] dilation, bool ceil, bool count_pad, int divisor, "
    "int mode) -> (Tensor, Tensor)"
)
_library.define("adaptive_pool(Tensor x, SymInt[] size, int mode) -> (Tensor, Tensor)")
_library.define("scan(Tensor x, int dim, int mode) -> (Tensor, Tensor)")


def _each(values, rank: int) -> list:
    values = list(values)
    return values * rank if len(values) == 1 else values


def _convolution_fake(x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    rank = w.dim() - 2
    batched = x.dim() == rank + 2
    stride, padding, dilation = _each(stride, rank), _each(padding, rank), _each(dilation, rank)
    output_padding = _each(output_padding, rank) if output_padding else [0] * rank
    sizes = x.shape[2:] if batched else x.shape[1:]
    channels = x.shape[1] if batched else x.shape[0]
    if transposed:
        torch._check(channels == w.shape[0])
        if groups != 1:
            torch._check(channels % groups == 0)
        out_channels = w.shape[1] * groups
        out = [
            (i - 1) * s - 2 * p + d * (k - 1) + o + 1
            for i, k, s, p, d, o in zip(sizes, w.shape[2:], stride, padding, dilation, output_padding)
        ]
    else:
        torch._check(channels == w.shape[1] * groups)
        if groups != 1:
            torch._check(w.shape[0] % groups == 0)
        out_channels = w.shape[0]
        out = [
            (i + 2 * p - d * (k - 1) - 1) // s + 1
            for i, k, s, p, d in zip(sizes, w.shape[2:], stride, padding, dilation)
        ]
    if b is not None:
        torch._check(b.shape[0] == out_channels)
    shape = ([x.shape[0]] if batched else []) + [out_channels] + out
    return x.new_empty(shape)


def _pool_fake(x, kernel, stride, padding, dilation, ceil, count_pad, divisor, mode):
    rank = len(kernel)
    out = []
    for i, k, s, p, d in zip(x.shape[-rank:], kernel, stride, padding, dilation):
        reach = d * (k - 1) + 1
        if ceil:
            o = (i + 2 * p - reach + s - 1) // s + 1
            if (o - 1) * s >= i + p:  # the last window must begin inside
                o = o - 1
        else:
            o = (i + 2 * p - reach) // s + 1
        out.append(o)
    shape = list(x.shape[:-rank]) + out
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


def _adaptive_fake(x, size, mode):
    shape = list(x.shape[: x.dim() - len(size)]) + list(size)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


def _scan_fake(x, dim, mode):
    return torch.empty_like(x, memory_format=torch.contiguous_format), x.new_empty(x.shape, dtype=torch.int64)


for _name, _fake in (("convolution", _convolution_fake), ("pool", _pool_fake), ("adaptive_pool", _adaptive_fake), ("scan", _scan_fake)):
    torch.library.register_fake(f"cultivar::{_name}", _fake, lib=_library)

_own = torch.ops.cultivar


def _convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    return _own.convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups)


def _max_pool(x, kernel, stride=(), padding=(0,), dilation=(1,), ceil=False, *, rank):
    kernel = _each(kernel, rank)
    stride = _each(stride, rank) if len(stride) else kernel
    return _own.pool(x, kernel, stride, _each(padding, rank), _each(dilation, rank), ceil, True, 0, 0)


def _avg_pool(x, kernel, stride=(), padding=(0,), ceil=False, count_pad=True, divisor=None, *, rank):
    kernel = _each(kernel, rank)
    stride = _each(stride, rank) if len(stride) else kernel
    return _own.pool(x, kernel, stride, _each(padding, rank), [1] * rank, ceil, count_pad, divisor or 0, 1)[0]


def _with_rank(function, rank):
    return lambda *args, **kwargs: function(*args, **kwargs, rank=rank)


def _attention(q, k, v, mask=None, dropout=0.0, causal=False, scale=None, enable_gqa=False, **_):
    """Attention by its definition."""
    if dropout:
        raise TraceError("attention with dropout")
    if enable_gqa and k.shape[-3] != q.shape[-3]:
        times = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(times, -3), v.repeat_interleave(times, -3)
    factor = 1.0 / q.shape[-1] ** 0.5 if scale is None else scale
    scores = torch.matmul(q, k.transpose(-2, -1)) * factor
    if causal:
        rows = torch.arange(q.shape[-2], device=q.device).unsqueeze(-1)
        columns = torch.arange(k.shape[-2], device=q.device)
        scores = torch.where(columns <= rows, scores, float("-inf"))
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return torch.matmul(torch.softmax(scores, -1), v)


def _native_attention(q, k, v, *args, **kwargs):
    raise TraceError("a fused attention was not decomposed")


@contextlib.contextmanager
def _plain_definitions():
    """scaled_dot_product_attention, linear and rms_norm become their definitions while tracing."""
    import torch.nn.functional as functional

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        return _attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)

    def linear(input, weight, bias=None):
        if input.dim() == 2 and weight.dim() == 2:
            return torch.mm(input, weight.t()) if bias is None else torch.addmm(bias, input, weight.t())
        result = torch.matmul(input, weight.t())
        return result if bias is None else result + bias

    def rms_norm(input, normalized_shape, weight=None, eps=None):  # PyTorch's own adds eps in place
        for size, given in zip(input.shape[-len(normalized_shape):], normalized_shape):
            torch._check(size == given)
        dims = list(range(input.dim() - len(normalized_shape), input.dim()))
        result = input * torch.rsqrt((input * input).mean(dims, keepdim=True) + (torch.finfo(input.dtype).eps if eps is None else eps))
        return result if weight is None else result * weight

    ours = {"scaled_dot_product_attention": attention, "linear": linear, "rms_norm": rms_norm}
    kept = {name: getattr(functional, name) for name in ours if hasattr(functional, name)}
    kept_fast = torch.backends.mha.get_fastpath_enabled()
    for name in kept:
        setattr(functional, name, ours[name])
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(functional, name, function)
        torch.backends.mha.set_fastpath_enabled(kept_fast)


def _group_norm(x, weight, bias, n, c, hw, groups, eps):
    shape = x.shape
    v = x.reshape(shape[0], groups, shape[1] // groups, *shape[2:])
    dims = list(range(2, v.dim()))
    var, mean = torch.var_mean(v, dims, correction=0, keepdim=True)
    factor = torch.rsqrt(var + eps)
    y = ((v - mean) * factor).reshape(shape)
    ones = [1] * (len(shape) - 2)
    if weight is not None:
        y = y * weight.reshape(1, -1, *ones)
    if bias is not None:
        y = y + bias.reshape(1, -1, *ones)
    return y, mean, factor


def _layer_norm(x, normalized, weight, bias, eps):
    for size, given in zip(x.shape[-len(normalized):], normalized):
        torch._check(size == given)
    for tensor in (weight, bias):
        if tensor is not None:
            for size, given in zip(tensor.shape, normalized):
                torch._check(size == given)
    dims = list(range(x.dim() - len(normalized), x.dim()))
    var, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
    factor = torch.rsqrt(var + eps)
    y = (x - mean) * factor
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y, mean, factor


_several: list = []  # sizes of the function being traced that PyTorch refuses where they are 1


def _batch_norm(x, weight, bias, mean, var, training, momentum, eps):
    shape = [1, -1] + [1] * (x.dim() - 2)
    if training:
        dims = [0, *range(2, x.dim())]
        _several.append(math.prod(x.shape[d] for d in dims))
        var, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
    else:
        mean, var = mean.reshape(shape), var.reshape(shape)
    factor = torch.rsqrt(var + eps)
    y = (x - mean) * factor
    if weight is not None:
        y = y * weight.reshape(shape)
    if bias is not None:
        y = y + bias.reshape(shape)
    return y, mean, factor


def _vector_norm(x, order=2, dim=None, keepdim=False, *, dtype=None):
    if dtype is not None:
        x = x.to(dtype)
    dims = list(range(x.dim())) if dim is None else ([dim] if isinstance(dim, int) else list(dim))
    if order == 2:
        return (x * x).sum(dims, keepdim).sqrt()
    if order == 1:
        return x.abs().sum(dims, keepdim)
    if order == math.inf:
        return x.abs().amax(dims, keepdim)
    if order == -math.inf:
        return x.abs().amin(dims, keepdim)
    if order == 0:
        return (x != 0).to(x.dtype).sum(dims, keepdim)
    return x.abs().pow(order).sum(dims, keepdim).pow(1.0 / order)


# Operations that the generation of kernels knows, although there are decompositions for them.
KEPT = [
    aten.gelu.default, aten.silu.default, aten.elu.default, aten.celu.default, aten.leaky_relu.default, aten.softplus.default,
    aten.hardtanh.default, aten.hardsigmoid.default, aten.hardswish.default, aten.mish.default, aten.relu6.default,
    aten.log_sigmoid_forward.default, aten.threshold.default, aten.flip.default, aten.sigmoid.default,
    aten.var.correction, aten.var_mean.correction, aten.mean.dim, aten.mean.default, aten.amax.default, aten.amin.default,
    aten.addmm.default, aten.baddbmm.default, aten.constant_pad_nd.default, aten.cat.default, aten.embedding.default,
    aten.avg_pool2d.default, aten.avg_pool3d.default, aten.tril.default, aten.triu.default, aten.expand.default,
    aten.select.int, aten.slice.Tensor, aten.lerp.Scalar, aten.lerp.Tensor, aten.addcmul.default, aten.addcdiv.default,
    aten.clamp.default, aten.roll.default, aten.rsub.Scalar, aten.rsub.Tensor, aten.index_select.default,
    aten.stack.default, aten.unbind.int, aten.split.Tensor, aten.split_with_sizes.default, aten.masked_fill.Scalar,
    aten.masked_fill.Tensor, aten.sum.default,
]


def _decompositions() -> dict:
    from torch._decomp import core_aten_decompositions, get_decompositions

    table = dict(core_aten_decompositions())
    more = [
        aten._softmax, aten._log_softmax, aten.native_layer_norm, aten.native_group_norm, aten.native_batch_norm,
        aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional, aten._native_batch_norm_legit_no_training,
        aten.cudnn_batch_norm, aten._batch_norm_with_update, aten._batch_norm_with_update_functional,
        aten.nll_loss_forward, aten.nll_loss2d_forward, aten.mse_loss, aten.smooth_l1_loss, aten.huber_loss,
        aten.soft_margin_loss, aten.binary_cross_entropy, aten.std, aten.std_mean, aten.linalg_vector_norm, aten.norm,
        aten.glu, aten.hardshrink, aten.softshrink, aten.logsumexp, aten.xlogy, aten.logaddexp, aten.rms_norm,
        aten._fused_rms_norm, aten.trace, aten.t, aten.dot, aten.mv, aten.addmv, aten.addr, aten.outer, aten.meshgrid, aten.prelu,
        aten._prelu_kernel, aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d,
        aten.upsample_bilinear2d, aten.pixel_shuffle, aten.pixel_unshuffle, aten.im2col, aten.repeat, aten.diag_embed,
        aten.reflection_pad1d, aten.reflection_pad2d, aten.reflection_pad3d, aten.replication_pad1d,
        aten.replication_pad2d, aten.replication_pad3d, aten.unfold, aten.dist, aten.cross, aten.renorm,
        aten._euclidean_dist, aten._cdist_forward, aten.log_softmax, aten.softmax, aten.aminmax, aten._weight_norm_interface,
        aten.channel_shuffle, aten.native_channel_shuffle, aten.var_mean, aten.multi_margin_loss, aten.multilabel_margin_loss_forward,
        aten.var, aten.masked_fill, aten.zeros_like, aten.ones_like, aten.full_like, aten.new_zeros, aten.new_ones,
        aten.new_full, aten.zeros, aten.ones, aten._unsafe_index, aten.bernoulli,
    ]
    for packet in more:
        try:
            table.update(get_decompositions([packet]))
        except Exception:
            pass
    for kept in KEPT:
        table.pop(kept, None)
    table[aten.convolution.default] = _convolution
    table[aten.max_pool2d_with_indices.default] = _with_rank(_max_pool, 2)
    table[aten.max_pool3d_with_indices.default] = _with_rank(_max_pool, 3)
    table[aten.avg_pool2d.default] = _with_rank(_avg_pool, 2)
    table[aten.avg_pool3d.default] = _with_rank(_avg_pool, 3)
    table[aten.avg_pool1d.default] = _with_rank(_avg_pool, 1)
    table[aten._adaptive_avg_pool2d.default] = lambda x, size: _own.adaptive_pool(x, size, 1)[0]
    table[aten._adaptive_avg_pool3d.default] = lambda x, size: _own.adaptive_pool(x, size, 1)[0]
    table[aten.adaptive_max_pool2d.default] = lambda x, size: _own.adaptive_pool(x, size, 0)
    table[aten.adaptive_max_pool3d.default] = lambda x, size: _own.adaptive_pool(x, size, 0)
    def cumulative(mode):
        return lambda x, dim, *, dtype=None: _own.scan(_for_sum(x, dtype), dim, mode)[0]

    table[aten.native_group_norm.default] = _group_norm
    table[aten.native_layer_norm.default] = _layer_norm
    table[aten.linalg_vector_norm.default] = _vector_norm
    table[aten.native_batch_norm.default] = _batch_norm
    table[aten._native_batch_norm_legit.default] = _batch_norm
    table[aten._native_batch_norm_legit.no_stats] = lambda x, w, b, training, momentum, eps: _batch_norm(
        x, w, b, None, None, True, momentum, eps
    )
    table[aten._native_batch_norm_legit_no_training.default] = lambda x, w, b, m, v, momentum, eps: _batch_norm(
        x, w, b, m, v, False, momentum, eps
    )
    table[aten._native_batch_norm_legit_functional.default] = lambda x, w, b, m, v, training, momentum, eps: (
        *_batch_norm(x, w, b, m, v, training, momentum, eps), m, v
    )
    table[aten.cumsum.default] = cumulative(0)
    table[aten.cumprod.default] = cumulative(1)
    table[aten.cummax.default] = lambda x, dim: _own.scan(x, dim, 2)
    table[aten.cummin.default] = lambda x, dim: _own.scan(x, dim, 3)
    return table


def _for_sum(x, dtype):
    if dtype is not None:
        return x.to(dtype)
    return x if x.dtype.is_floating_point else x.to(torch.int64)


# ---------------------------------------------------------------------------------------------------------------------
# Tracing

_DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "u8",
    torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2",
}

RESERVED = {
    "thread", "threads", "dtype", "element_bytes", "step", "f64", "f32", "f16", "bf16", "e4m3", "e5m2", "i64", "i32",
    "i16", "i8", "u64", "u32", "u16", "u8", "ceil_div", "floor_div", "round_up", "floor", "ceil", "min", "max", "sqrt", "abs",
    "log2", "num_cores", "l1_bytes", "l2_bytes", "l3_bytes", "vector_bits", "page_bytes", "num_sms", "smem_max",
    "registers_max", "threads_max", "compute_capability", "DTYPE", "NAN", "EOF", "NULL", "INFINITY", "I", "LANES", "TILE",
    "THREADS", "KBLOCK", "I64", "true", "false", "asm", "auto", "bool", "int", "float", "double", "char", "long", "void",
    "const", "static", "struct", "class", "template", "typename", "this", "new", "delete", "operator", "union", "signed",
    "unsigned", "short", "register", "inline", "extern", "volatile", "switch", "case", "default", "do", "goto", "sizeof",
    "typedef", "using", "namespace", "enum", "export", "virtual", "friend", "private", "public", "protected", "throw", "catch",
    "main", "blockIdx", "threadIdx", "blockDim", "gridDim", "warpSize", "y0", "y1", "j0", "j1", "jn", "yn", "exp", "log", "pow",
    "div", "signal", "time", "index", "first", "last", "total", "widened", "narrowed", "Element", "linux", "unix",
}


def dtype_name(dtype: torch.dtype) -> str:
    if dtype not in _DTYPES:
        raise TraceError(f"the dtype {dtype} is not supported")
    return _DTYPES[dtype]


def _is_parameter(name: str) -> bool:
    return bool(re.search(r"weight|bias|running_|_w$|_b$|^w\d*$|^b\d*$", name))


def _axis_names(name: str, rank: int, convolved: int | None) -> list[str]:
    """Names for the axes of an input. `convolved`: the number of spatial dimensions, if it is the image of a convolution."""
    spatial = {1: ["L"], 2: ["H", "W"], 3: ["D", "H", "W"]}
    if re.search(r"weight", name):
        if rank == 2:
            return ["OUT", "IN"]
        if 3 <= rank <= 5:
            kernel = {1: ["KW"], 2: ["KH", "KW"], 3: ["KD", "KH", "KW"]}[rank - 2]
            return ["CO", "CI", *kernel]
        if rank == 1:
            return ["C"]
    if re.search(r"bias|running_", name) and rank == 1:
        return ["OUT"]
    if convolved and rank == convolved + 2 and convolved in spatial:
        return ["N", "C", *spatial[convolved]]
    return {
        0: [], 1: ["N"], 2: ["R", "C"], 3: ["B", "S", "D"], 4: ["N", "C", "H", "W"], 5: ["N", "C", "D", "H", "W"],
    }.get(rank, [f"D{i}" for i in range(rank)])


def _truth(expression) -> bool:
    """Whether a relation holds for all sizes of at least 1 by its form alone."""
    if expression is sympy.true:
        return True
    symbols = {s: sympy.Symbol(s.name, integer=True, positive=True) for s in expression.free_symbols}
    e = expression.xreplace(symbols)
    if e is sympy.true:
        return True
    if isinstance(e, sympy.Ne) and any(a == 0 for a in e.args):
        other = e.args[0] if e.args[1] == 0 else e.args[1]
        return bool(other.is_positive)
    return False


def _with_sizes(environment, mode, t, name, known, shared):
    """A fake tensor whose axes are fixed (a number) or dimensions (a name): axes of the same name have one size."""
    from torch._dynamo.source import LocalSource

    sizes = []
    for axis, one in enumerate(known):
        size = t.shape[axis]
        if not isinstance(one, str) or size < 2:
            sizes.append(size)
            continue
        if one not in shared:
            source = LocalSource(f"{name}_{axis}")
            symbol = environment.create_symbol(size, source, dynamic_dim=DimDynamic.DYNAMIC)
            shared[one] = environment.create_symintnode(symbol, hint=size, source=source)
        sizes.append(shared[one])
    with mode:
        return torch.empty(sizes, dtype=t.dtype)


def _attempt(function, examples, names, dynamic: str, hint) -> Traced:
    environment = ShapeEnv(duck_shape=False, specialize_zero_one=True)
    mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    from torch._dynamo.source import LocalSource

    fakes = []
    batch = next((t.shape[0] for t, n in zip(examples, names) if t.dim() > 0 and not _is_parameter(n)), None)
    shared: dict[str, torch.SymInt] = {}
    for t, name in zip(examples, names):
        known = (hint or {}).get(name)
        if dynamic == "all" and known is not None and len(known) == t.dim():
            fakes.append(_with_sizes(environment, mode, t, name, known, shared))
            continue
        sizes = []
        for axis, size in enumerate(t.shape):
            free = size > 1 and (
                dynamic == "all" or (dynamic == "batch" and axis == 0 and size == batch and not _is_parameter(name))
            )
            sizes.append(DimDynamic.DYNAMIC if free else DimDynamic.STATIC)
        context = StatelessSymbolicContext(dynamic_sizes=sizes)
        fake = mode.from_tensor(t.detach().contiguous(), symbolic_context=context, source=LocalSource(name))
        fakes.append(fake)

    tupled = [False]

    def run(*args):
        result = function(*args)
        if isinstance(result, torch.Tensor):
            return (result,)
        tupled[0] = True
        flat = []

        def walk(r):
            if isinstance(r, torch.Tensor):
                flat.append(r)
            elif isinstance(r, (list, tuple)):
                for one in r:
                    walk(one)
            elif isinstance(r, dict):
                for one in r.values():
                    walk(one)
            elif r is not None:
                raise TraceError(f"the function returns a {type(r).__name__}")

        walk(result)
        return tuple(flat)

    _several.clear()
    with torch.no_grad(), mode, _plain_definitions(), enable_python_dispatcher():
        module = make_fx(
            torch.func.functionalize(run, remove="mutations"),
            tracing_mode="real",
            decomposition_table=_decompositions(),
            _allow_non_fake_inputs=True,
        )(*fakes)

    graph = module.graph
    for node in list(graph.nodes):  # updates of buffers are not results
        if node.op == "call_function" and node.target == aten.copy_.default and node.args[0].op == "placeholder":
            node.replace_all_uses_with(node.args[1])
            graph.erase_node(node)
    graph.eliminate_dead_code()
    module.recompile()

    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    traced = Traced(
        graph=module, inputs=[], outputs=[], dims={}, dimensions=[], relations=[], flops="0", dtype="f32", dynamic=dynamic,
        returns_tuple=tupled[0],
    )
    traced._environment = environment

    # Which inputs are images of convolutions or pools.
    convolved: dict[str, int] = {}
    for node, name in zip(placeholders, names):
        for user in node.users:
            if user.target in (_own.convolution.default, _own.pool.default) and user.args[0] is node:
                w = user.args[1]
                convolved[name] = w.meta["val"].dim() - 2 if isinstance(w, torch.fx.Node) else len(w)

    # Names for the free symbols.
    taken = set(names) | RESERVED

    def fresh(wish: str) -> str:
        if not wish.isidentifier() or keyword.iskeyword(wish) or (len(wish) == 1 and wish.islower()):
            wish = "D"
        name, count = wish, 1
        while name in taken:
            count += 1
            name = f"{wish}{count}"
        taken.add(name)
        return name

    sources = environment.backed_var_to_val if hasattr(environment, "backed_var_to_val") else environment.var_to_val

    def value_of(e) -> int:
        return int(e.xreplace({s: sympy.Integer(int(sources[s])) for s in e.free_symbols}))

    for tensor, name in zip(fakes, names):
        wishes = list((hint or {}).get(name) or _axis_names(name, tensor.dim(), convolved.get(name)))
        for axis, size in enumerate(tensor.shape):
            if not isinstance(size, torch.SymInt):
                continue
            e = environment.replace(size.node.expr)
            if isinstance(e, sympy.Symbol) and e not in traced._names:
                wish = wishes[axis] if axis < len(wishes) else f"D{axis}"
                own = fresh(wish)
                traced._names[e] = sympy.Symbol(own, integer=True, positive=True)
                value = value_of(e)
                traced.dims[own] = value
                traced.dimensions.append(Dimension(own, value, about=f"axis {axis} of {name}"))

    symbols = dict(traced._names)
    for guard in environment.guards:
        e = environment.replace(guard.expr)
        if isinstance(e, sympy.Eq) and any(a == 0 for a in e.args):
            for m in e.args:
                if type(m).__name__ in ("Mod", "PythonMod") and not (m.free_symbols - set(symbols)):
                    traced._divisible.append(tuple(a.xreplace(symbols) for a in m.args))
    derived: dict[sympy.Expr, str] = {}

    def entry(size, wish: str, about: str, relation: bool):
        """A size in a shape: a whole number, the name of a dimension, or that of a new derived dimension."""
        e = environment.replace(size.node.expr) if isinstance(size, torch.SymInt) else sympy.Integer(int(size))
        missing = [s for s in e.free_symbols if s not in symbols]
        if missing:
            raise TraceError(f"a size depends on the values of a tensor or on an axis that no input has: {e}")
        named = traced._whole(e.xreplace(symbols))
        if named.is_Integer:
            return int(named)
        if isinstance(named, sympy.Symbol):
            return named.name
        if named not in derived:
            own = fresh(wish)
            derived[named] = own
            traced.dims[own] = value_of(e)
            traced.dimensions.append(Dimension(own, value_of(e), about=about, default=to_task(named)))
            if relation:
                traced.relations.append(f"{own} == {to_task(named)}")
        return derived[named]

    # An input whose axis is an expression of others gets a derived dimension, and the relation that ties it.
    floating = [t.dtype for t in fakes if t.dtype.is_floating_point]
    traced.dtype = dtype_name(floating[0]) if floating else dtype_name(fakes[0].dtype)
    # Symbols that occur only inside such expressions have no name yet; they cannot be expressed.
    for tensor, name in zip(fakes, names):
        wishes = list((hint or {}).get(name) or _axis_names(name, tensor.dim(), convolved.get(name)))
        shape = [
            entry(s, wishes[a] if a < len(wishes) else f"D{a}", f"axis {a} of {name}", True)
            for a, s in enumerate(tensor.shape)
        ]
        traced.inputs.append(TensorInfo(name, dtype_name(tensor.dtype), shape, tensor.dtype == torch.bool))

    results = next(n for n in graph.nodes if n.op == "output").args[0]
    for number, result in enumerate(results):
        value = result.meta["val"]
        spatial = {3: ["No", "Co", "Lo"], 4: ["No", "Co", "Ho", "Wo"], 5: ["No", "Co", "Do", "Ho", "Wo"]}
        wishes = spatial.get(value.dim(), [f"O{a}" for a in range(value.dim())])
        name = "out" if len(results) == 1 else f"out{number}"
        while name in taken or name in [o.name for o in traced.outputs]:
            name += "_"
        shape = [entry(s, wishes[a], f"axis {a} of the output {name}", False) for a, s in enumerate(value.shape)]
        traced.outputs.append(TensorInfo(name, dtype_name(value.dtype), shape, value.dtype == torch.bool))

    traced.relations += _relations(traced, environment, symbols)
    traced.flops = _flops(traced)
    return traced


def _relations(traced: Traced, environment, symbols: dict) -> list[str]:
    """What sizes must satisfy: that all shapes of the graph have sizes of at least 1, and the conditions of the trace that are
    not always true. (Conditions that a size is not 0 or 1 decide only about strides.)"""
    sizes = []  # every size of the graph that could be below 1
    for node in traced.graph.graph.nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, (list, tuple)) else [values]:
            if isinstance(value, torch.Tensor):
                for size in traced.shape(value):
                    if not size.is_Number and not size.is_Symbol and size not in sizes:
                        sizes.append(size)
    conditions = []
    for node in traced.graph.graph.nodes:  # an index that the function names, or as many as it asks for, must exist
        least = 0
        if node.target is aten.select.int and isinstance(node.args[2], int):
            size = traced.shape(node.args[0].meta["val"])[node.args[1]]
            least = node.args[2] + 1 if node.args[2] >= 0 else -node.args[2]
        if node.target is aten.topk.default and node.args[0].meta["val"].dim() and isinstance(node.args[1], int):
            size = traced.shape(node.args[0].meta["val"])[node.args[2] if len(node.args) > 2 else -1]
            least = node.args[1]
        if least > 1:
            if not size.is_Number and sympy.Ge(size, least) not in conditions:
                conditions.append(sympy.Ge(size, least))
    for size in _several:
        condition = sympy.Ge(traced.expression(size), 2)
        if condition is not sympy.true and not condition.free_symbols - set(symbols.values()):
            conditions.append(condition)
    conditions += [sympy.Ge(size, 1) for size in sizes if not (size - 1).is_nonnegative]
    for guard in environment.guards:
        e = environment.replace(guard.expr)
        if e.free_symbols - set(symbols):
            continue
        e = traced._whole(e.xreplace(symbols))
        if isinstance(e, sympy.Ne) and (e.args in traced._divisible or e.args[::-1] in traced._divisible):
            continue  # a quotient is not 1
        if e is sympy.false:
            raise TraceError(f"a condition was taken that does not hold in general: {guard.expr}")
        if e is not sympy.true and e not in conditions and not (_only_of_layout(e) and _of_torch(guard)):
            conditions.append(e)
    for symbol, named in symbols.items():
        bound = environment.var_to_range.get(symbol)
        if bound is not None and bound.lower.is_Integer and int(bound.lower) > 2:
            if sympy.Ge(named, bound.lower) not in conditions:
                conditions.append(sympy.Ge(named, bound.lower))
        if bound is not None and bound.upper.is_Integer and int(bound.upper) < 2**31 - 1:
            conditions.append(sympy.Le(named, bound.upper))
    return [to_task(c) for c in _needed(conditions, list(symbols.values()))]


def _of_torch(guard) -> bool:
    """Whether PyTorch's shape rules asked, rather than the function or a check in torch.nn."""
    place = str(getattr(guard, "sloc", "")).lstrip("(")
    return place.startswith(("_", "fx/", "utils/", "library", "functional.py")) or "cultivar_import" in place


def _only_of_layout(e) -> bool:
    """Whether a condition only says that a size or a product of sizes is not 0 or 1."""
    if isinstance(e, (sympy.Ne, sympy.Ge, sympy.Gt, sympy.Lt, sympy.Le)):
        a, b = e.args
        if isinstance(e, sympy.Ne):
            return a in (0, 1) or b in (0, 1)
        if isinstance(e, (sympy.Lt, sympy.Le)):
            a, b = b, a
        least = 2 if isinstance(e, (sympy.Ge, sympy.Le)) else 1
        return b.is_Integer and int(b) <= least
    return False


def _needed(conditions: list, dims: list) -> list:
    """Leaves out conditions that the ones before them imply, judged by samples of sizes."""
    import random

    random.seed(1)
    factors = {d: 1 for d in dims}
    for c in conditions:
        if isinstance(c, sympy.Eq) and any(a == 0 for a in c.args):
            for m in c.atoms(sympy.Function):
                if type(m).__name__ in ("Mod", "PythonMod") and m.args[0] in factors and m.args[1].is_Integer:
                    factors[m.args[0]] = math.lcm(factors[m.args[0]], int(m.args[1]))
    samples = []
    for trial in range(300):
        top = (4, 24, 100, 100000)[trial % 4]
        samples.append({d: sympy.Integer(random.randint(1, top) * factors[d]) for d in dims})

    def holds(c, sample):
        try:
            return c.xreplace(sample) == sympy.true
        except Exception:
            return False

    kept = []
    alive = samples
    for c in sorted(conditions, key=lambda c: (c.count_ops(), len(str(c)))):
        after = [s for s in alive if holds(c, s)]
        if len(after) == len(alive) and len(alive) >= 20:
            # Divisibility was built into the samples: it is what makes the others true.
            if not c.atoms(symbolic.Mod, symbolic.PythonMod):
                continue
        kept.append(c)
        alive = after
    return kept


def trace(
    function: Callable, example_inputs: list[torch.Tensor], input_names: list[str], input_axis_names_hint: dict | None = None
) -> Traced:
    """Traces function(*tensors). All axes of size 2 and more are dynamic if that works, else the batch, else none.

    input_axis_names_hint: {input name: [of each axis its name, or its size if it is fixed]}; axes of one name have one size.
    """
    if len(example_inputs) != len(input_names):
        raise TraceError("there must be a name for each input")
    examples = list(example_inputs)
    reasons = []
    for dynamic in ("all", "batch", "none"):
        try:
            traced = _attempt(function, examples, list(input_names), dynamic, input_axis_names_hint)
            traced.notes = [f"with dynamic axes '{d}': {r}" for d, r in reasons]
            return traced
        except Exception as error:  # what a function does while it is traced is not known
            text = f"{type(error).__name__}: {error}".strip().split("\n")
            reasons.append((dynamic, " ".join(text)[:400]))
    raise TraceError("; ".join(f"{d}: {r}" for d, r in reasons))


# ---------------------------------------------------------------------------------------------------------------------
# Counting operations

_FREE = {
    "view", "reshape", "permute", "expand", "unsqueeze", "squeeze", "slice", "select", "clone", "alias", "detach", "t",
    "transpose", "cat", "constant_pad_nd", "arange", "full", "scalar_tensor", "lift_fresh_copy", "_to_copy", "copy", "empty",
    "embedding", "index", "index_select", "gather", "flip", "roll", "split", "split_with_sizes", "unbind", "getitem",
    "sym_size", "_unsafe_view", "as_strided", "diagonal", "unfold", "slice_scatter", "select_scatter", "repeat",
}


def _flops(traced: Traced) -> str:
    total = sympy.Integer(0)

    def count(value):
        if isinstance(value, (list, tuple)):
            value = value[0]
        if not hasattr(value, "shape"):
            return sympy.Integer(0)
        product = sympy.Integer(1)
        for s in traced.shape(value):
            product *= s
        return product

    for node in traced.graph.graph.nodes:
        if node.op != "call_function" or "val" not in node.meta or node.target is operator.getitem:
            continue
        name = node.target.__name__.split(".")[0] if hasattr(node.target, "__name__") else str(node.target)
        out = count(node.meta["val"])
        if name in ("mm", "bmm", "addmm", "baddbmm"):
            a = node.args[1 if name in ("addmm", "baddbmm") else 0].meta["val"]
            total += 2 * out * traced.expression(a.shape[-1])
        elif name == "convolution":
            x, w = node.args[0].meta["val"], node.args[1].meta["val"]
            kernel = sympy.Integer(1)
            for s in traced.shape(w)[1:]:
                kernel *= s
            total += 2 * kernel * (count(x) if node.args[6] else out)
        elif name == "pool":
            total += out * math.prod(node.args[1])
        elif name in ("sum", "mean", "amax", "amin", "argmax", "argmin", "prod", "max", "min", "any", "all", "adaptive_pool", "scan", "topk", "sort"):
            total += count(node.args[0].meta["val"])
        elif name in ("var", "var_mean"):
            total += 3 * count(node.args[0].meta["val"])
        elif name in _FREE:
            continue
        else:
            total += out
    return to_task(total) if total != 0 else "1"
