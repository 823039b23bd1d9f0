# SPDX-License-Identifier: Apache-2.0
"""Derives naive seed kernels from a traced PyTorch function.

derive(traced, task_name) gives the text of a cpu and of a cuda variant (evaluators/README.md has the format). Operations that
combine elements (sums, products of matrices, convolutions, pools, scans) become a kernel each; element-wise operations and
changes of shape become index arithmetic in the kernel that uses them, or in the one before it. Every size is taken that the
relations of the trace allow.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from typing import Callable

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Mod

from .trace import Traced, dtype_name, to_cpp, to_task

LAUNCHES_MAX = 64
SOURCE_MAX = 1 << 20
MANIFEST_MAX = 64 << 10


class Unsupported(Exception):
    """A seed cannot be derived; the message names the operation and the reason."""


@dataclasses.dataclass
class Seeds:
    cpu: str | None
    cuda: str | None
    why: str  # why one of them is missing, or ""
    operations: list[str] = dataclasses.field(default_factory=list)  # unsupported ones


def _product(sizes) -> sympy.Expr:
    result = sympy.Integer(1)
    for s in sizes:
        result *= s
    return result


def to_task_plain(e) -> str:
    return to_task(_plain(sympy.sympify(e)))


_ZERO, _ONE = sympy.Integer(0), sympy.Integer(1)


def _variable(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, nonnegative=True)


def _flat(idx, shape) -> sympy.Expr:
    """The position in a contiguous tensor."""
    result = _ZERO
    for i, s in zip(idx, shape):
        result = result * s + i
    return sympy.expand(result)


_NAMED: dict = {}  # symbols for sizes that are sums or quotients -> what they stand for


def _plain(e):
    return e.xreplace(_NAMED) if _NAMED else e


def _same(a, b) -> bool:
    return a == b or sympy.expand(_plain(a - b)) == 0


def _unflatten(position, shape) -> list:
    """The indices in `shape` of a position; the outermost one is not reduced."""
    result = []
    for number, s in enumerate(reversed(shape)):
        if s == 1:
            result.append(_ZERO)
        elif number == len(shape) - 1 or all(t == 1 for t in shape[: len(shape) - 1 - number]):
            result.append(position)
            position = _ZERO
        else:
            result.append(Mod(position, s))
            position = FloorDiv(position, s)
    return result[::-1]


def _reshaped(idx, new, old) -> list:
    """The indices in shape `old` of the element at `idx` of the contiguous shape `new`. Groups of dimensions with equal products are
    taken by themselves, so that most reshapes need no division."""
    idx, new, old = list(idx), list(new), list(old)
    result = []
    a = b = 0
    while a < len(new) or b < len(old):
        if a < len(new) and b < len(old) and _same(new[a], old[b]):
            result.append(idx[a])
            a, b = a + 1, b + 1
            continue
        if a < len(new) and new[a] == 1:
            a += 1
            continue
        if b < len(old) and old[b] == 1:
            result.append(_ZERO)
            b += 1
            continue
        # The smallest groups from here on with equal products.
        found = None
        for x in range(a + 1, len(new) + 1):
            for y in range(b + 1, len(old) + 1):
                if _same(_product(new[a:x]), _product(old[b:y])):
                    found = (x, y)
                    break
            if found:
                break
        x, y = found or (len(new), len(old))
        result += _unflatten(_flat(idx[a:x], new[a:x]), old[b:y])
        a, b = x, y
    return result


# ---------------------------------------------------------------------------------------------------------------------
# Text of a kernel


C_TYPES = {"f": "float", "i": "i64", "b": "bool"}


@dataclasses.dataclass(eq=False)
class Buffer:
    name: str  # in the manifest
    label: str  # in the kernel
    dtype: str  # "work" (the workload's), or a dtype; workspaces: f32, i64, u8
    kind: str  # of its values: f, i, b
    is_input: bool = False


class Code:
    """The body of a kernel."""

    def __init__(self, owner: "Lowering"):
        self.owner = owner
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.known: list[dict] = [{}]
        self.buffers: dict[Buffer, bool] = {}  # whether it is written

    def fresh(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, text: str):
        self.lines.append("  " * self.depth + text)

    def open(self, text: str):
        self.line(text + " {")
        self.depth += 1
        self.known.append({})

    def close(self):
        self.known.pop()
        self.depth -= 1
        self.line("}")

    def let(self, c_type: str, text: str, prefix: str = "v") -> str:
        key = (c_type, text)
        for scope in self.known:
            if key in scope:
                return scope[key]
        name = self.fresh(prefix)
        self.line(f"const {c_type} {name} = {text};")
        self.known[-1][key] = name
        return name

    def forget(self):
        """Variables may have changed: what was computed from them is not known any more."""
        self.known[-1].clear()

    def use(self, buffer: Buffer, written: bool = False):
        self.buffers[buffer] = self.buffers.get(buffer, False) or written

    def load(self, buffer: Buffer, position) -> str:
        self.use(buffer)
        at = f"{buffer.label}[{to_cpp(position)}]"
        if buffer.kind == "f":
            plain = buffer.dtype == "f32" or self.owner.target == "cpu"
            return self.let("float", at if plain else f"{self.owner.widen(buffer.dtype)}({at})")
        if buffer.kind == "b":
            return self.let("bool", f"{at} != 0")
        return self.let("i64", at)

    def store(self, buffer: Buffer, position, text: str):
        self.use(buffer, True)
        at = f"{buffer.label}[{to_cpp(position)}]"
        if buffer.kind == "f":
            plain = buffer.dtype == "f32" or self.owner.target == "cpu"
            text = text if plain else f"{self.owner.narrow(buffer.dtype)}({text})"
        elif buffer.kind == "b":
            text = f"{text} ? 1 : 0"
        else:
            c_type = self.owner.c_type(buffer)
            text = text if c_type == "long long" else f"({c_type})({text})"
        self.line(f"{at} = {text};")


def literal(value, kind: str) -> str:
    if kind == "b":
        return "true" if value else "false"
    if kind == "i":
        value = int(value)
        if value <= -(2**63):
            return "(-9223372036854775807LL - 1)"
        return f"{value}LL" if value >= 0 else f"({value}LL)"
    value = float(value)
    if math.isinf(value) or abs(value) > 3.4028235677973366e38:
        return "infinity()" if value > 0 else "(-infinity())"
    if math.isnan(value):
        return "not_a_number()"
    text = repr(value)
    if "." not in text and "e" not in text:
        text += ".0"
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return f"{text}f" if value >= 0 and not text.startswith("-") else f"({text}f)"


def cast(text: str, source: str, to: str) -> str:
    if source == to:
        return text
    if to == "f":
        return f"({text} ? 1.0f : 0.0f)" if source == "b" else f"(float)({text})"
    if to == "i":
        return f"(i64)({text})"
    return f"({text} != 0)"


# ---------------------------------------------------------------------------------------------------------------------
# Values: what is known of a tensor of the graph. at() writes the text that computes one element.


class Value:
    shape: list
    kind: str
    ops = 0  # operations an element
    loads = 0
    heavy = 0  # how many of them are slow (exp and the like)

    def at(self, code: Code, idx: list) -> str:
        raise NotImplementedError

    def merged(self, axis: int) -> "Value | None":
        """The same with `axis` and the axis behind it as one, if that needs no division."""
        return None

    def place(self, idx: list):
        """The buffer and the position, if this is a view of a buffer."""
        return None


class Stored(Value):
    loads = 1

    def __init__(self, buffer: Buffer, shape):
        self.buffer, self.shape, self.kind = buffer, list(shape), buffer.kind

    def at(self, code, idx):
        return code.load(self.buffer, _flat(idx, self.shape))

    def merged(self, axis):
        s = self.shape
        return Stored(self.buffer, [*s[:axis], s[axis] * s[axis + 1], *s[axis + 2:]])

    def place(self, idx):
        return self.buffer, _flat(idx, self.shape)


class Constant(Value):
    def __init__(self, text: str, kind: str, shape):
        self.text, self.kind, self.shape = text, kind, list(shape)

    def at(self, code, idx):
        return self.text

    def merged(self, axis):
        s = self.shape
        return Constant(self.text, self.kind, [*s[:axis], s[axis] * s[axis + 1], *s[axis + 2:]])


class Hole(Value):
    """What a kernel has just computed, for the operations behind it."""

    def __init__(self, kind: str, shape):
        self.kind, self.shape, self.text = kind, list(shape), ""

    def at(self, code, idx):
        return self.text


class View(Value):
    def __init__(self, base: Value, shape, mapping: Callable):
        self.base, self.shape, self.mapping, self.kind = base, list(shape), mapping, base.kind
        self.ops, self.loads, self.heavy = base.ops, base.loads, base.heavy

    def at(self, code, idx):
        return self.base.at(code, self.mapping(list(idx)))

    def place(self, idx):
        return self.base.place(self.mapping(list(idx)))


class Expanded(View):
    def __init__(self, base: Value, shape):
        shape = list(shape)
        gap = len(shape) - len(base.shape)
        self.fixed = [True] * gap + [b == 1 for b in base.shape]  # axes along which the base does not vary

        def mapping(idx):
            return [_ZERO if b == 1 else i for i, b in zip(idx[gap:], base.shape)]

        super().__init__(base, shape, mapping)
        self.gap = gap

    def merged(self, axis):
        s, gap = self.shape, self.gap
        shape = [*s[:axis], s[axis] * s[axis + 1], *s[axis + 2:]]
        if self.fixed[axis] and self.fixed[axis + 1]:
            if axis + 1 < gap:
                return Expanded(self.base, shape)
            if axis < gap:  # one axis of the base goes into the gap
                return Expanded(View(self.base, self.base.shape[1:], lambda idx: [_ZERO, *idx]), shape)
            b = self.base.shape
            inner = View(self.base, [*b[: axis - gap], *b[axis - gap + 1:]],
                         lambda idx, a=axis - gap: [*idx[:a], _ZERO, *idx[a:]])
            return Expanded(inner, shape)
        if not self.fixed[axis] and not self.fixed[axis + 1]:
            base = self.base.merged(axis - gap)
            return Expanded(base, shape) if base is not None else None
        return None


class Pointwise(Value):
    def __init__(self, shape, kind: str, args: list[Value], write: Callable, heavy: int = 0, ops: int = 1):
        self.shape, self.kind, self.args, self.write = list(shape), kind, args, write
        self.ops = ops + sum(a.ops for a in args)
        self.loads = sum(a.loads for a in args)
        self.heavy = heavy + sum(a.heavy for a in args)
        self.own = (heavy, ops)

    def at(self, code, idx):
        texts = [a.at(code, idx) for a in self.args]
        return code.let(C_TYPES[self.kind], self.write(*texts))

    def merged(self, axis):
        args = [a.merged(axis) for a in self.args]
        if any(a is None for a in args):
            return None
        s = self.shape
        return Pointwise([*s[:axis], s[axis] * s[axis + 1], *s[axis + 2:]], self.kind, args, self.write, *self.own)


class Index(Value):
    """A whole number or truth computed from the indices."""

    def __init__(self, shape, kind, text: Callable):
        self.shape, self.kind, self.text = list(shape), kind, text

    def at(self, code, idx):
        return code.let(C_TYPES[self.kind], self.text(idx))


class Choice(Value):
    """One of two values, of which only the chosen one is read."""

    def __init__(self, shape, kind, condition: Callable, yes: Value, yes_at: Callable, no: Value, no_at: Callable):
        self.shape, self.kind, self.condition = list(shape), kind, condition
        self.yes, self.yes_at, self.no, self.no_at = yes, yes_at, no, no_at
        self.ops = 2 + yes.ops + no.ops
        self.loads = yes.loads + no.loads
        self.heavy = yes.heavy + no.heavy

    def at(self, code, idx):
        c_type = C_TYPES[self.kind]
        condition = self.condition(idx)
        if condition in ("1", "true"):
            return cast(self.yes.at(code, self.yes_at(idx)), self.yes.kind, self.kind)
        if condition in ("0", "false"):
            return cast(self.no.at(code, self.no_at(idx)), self.no.kind, self.kind)
        name = code.fresh()
        if isinstance(self.no, Constant):
            code.line(f"{c_type} {name} = {cast(self.no.text, self.no.kind, self.kind)};")
        else:
            code.line(f"{c_type} {name};")
        code.open(f"if ({condition})")
        code.line(f"{name} = {cast(self.yes.at(code, self.yes_at(idx)), self.yes.kind, self.kind)};")
        code.close()
        if not isinstance(self.no, Constant):
            code.open("else")
            code.line(f"{name} = {cast(self.no.at(code, self.no_at(idx)), self.no.kind, self.kind)};")
            code.close()
        return name


class Lookup(Value):
    """An element at a place that other tensors say."""

    def __init__(self, shape, base: Value, where: Callable):
        self.shape, self.base, self.kind, self.where = list(shape), base, base.kind, where
        self.ops, self.loads, self.heavy = base.ops + 2, base.loads + 1, base.heavy

    def at(self, code, idx):
        return self.base.at(code, self.where(code, list(idx)))


class Table(Value):
    """Constants of the function."""

    loads = 1

    def __init__(self, label, shape, kind):
        self.label, self.shape, self.kind = label, list(shape), kind

    def at(self, code, idx):
        return code.let(C_TYPES[self.kind], f"{self.label}[{to_cpp(_flat(idx, self.shape))}]")


# ---------------------------------------------------------------------------------------------------------------------
# Element-wise operations: name -> text. x, y, z are the arguments, already of the result's kind.

UNARY = {
    "neg": "-{x}", "relu": "({x} < 0.0f ? 0.0f : {x})", "abs": "fabsf({x})", "exp": "!expf({x})", "exp2": "!exp2f({x})",
    "log": "!logf({x})", "log2": "!log2f({x})", "log10": "!log10f({x})", "log1p": "!log1pf({x})", "expm1": "!expm1f({x})",
    "sqrt": "sqrtf({x})", "rsqrt": "1.0f / sqrtf({x})", "sin": "!sinf({x})", "cos": "!cosf({x})", "tan": "!tanf({x})",
    "sinh": "!sinhf({x})", "cosh": "!coshf({x})", "tanh": "!tanhf({x})", "asin": "!asinf({x})", "acos": "!acosf({x})",
    "atan": "!atanf({x})", "asinh": "!asinhf({x})", "acosh": "!acoshf({x})", "atanh": "!atanhf({x})", "erf": "!erff({x})",
    "erfc": "!erfcf({x})", "floor": "floorf({x})", "ceil": "ceilf({x})", "round": "rintf({x})", "trunc": "truncf({x})",
    "reciprocal": "1.0f / {x}", "sigmoid": "!1.0f / (1.0f + expf(-{x}))", "silu": "!{x} / (1.0f + expf(-{x}))",
    "sign": "(float)(({x} > 0.0f) - ({x} < 0.0f))", "sgn": "(float)(({x} > 0.0f) - ({x} < 0.0f))",
    "mish": "!{x} * tanhf({x} > 20.0f ? {x} : log1pf(expf({x})))", "relu6": "fminf(fmaxf({x}, 0.0f), 6.0f)",
    "hardsigmoid": "fminf(fmaxf({x} + 3.0f, 0.0f), 6.0f) / 6.0f",
    "hardswish": "{x} * fminf(fmaxf({x} + 3.0f, 0.0f), 6.0f) / 6.0f", "square": "{x} * {x}",
    "frac": "{x} - truncf({x})",
    "lgamma": "!lgammaf({x})", "deg2rad": "{x} * 0.017453292519943295f",
}
UNARY_INT = {
    "neg": "-{x}", "relu": "({x} < 0 ? 0 : {x})", "abs": "({x} < 0 ? -{x} : {x})", "floor": "{x}", "ceil": "{x}", "round": "{x}",
    "trunc": "{x}", "sign": "(i64)(({x} > 0) - ({x} < 0))", "square": "{x} * {x}", "bitwise_not": "~{x}",
}
BINARY = {
    "mul": "{x} * {y}", "div": "{x} / {y}", "maximum": "({x} > {y} ? {x} : {y})", "minimum": "({x} < {y} ? {x} : {y})",
    "atan2": "!atan2f({x}, {y})", "fmod": "!fmodf({x}, {y})", "remainder": "!{x} - floorf({x} / {y}) * {y}",
    "hypot": "!hypotf({x}, {y})", "copysign": "copysignf({x}, {y})", "fmax": "fmaxf({x}, {y})", "fmin": "fminf({x}, {y})",
    "floor_divide": "floorf({x} / {y})", "true_divide": "{x} / {y}",
}
BINARY_INT = {
    "mul": "{x} * {y}", "maximum": "({x} > {y} ? {x} : {y})", "minimum": "({x} < {y} ? {x} : {y})",
    "div": "floor_quotient({x}, {y})", "floor_divide": "floor_quotient({x}, {y})",
    "remainder": "({x} - floor_quotient({x}, {y}) * {y})", "fmod": "({x} % {y})", "bitwise_and": "({x} & {y})",
    "bitwise_or": "({x} | {y})", "bitwise_xor": "({x} ^ {y})", "bitwise_left_shift": "({x} << {y})",
    "bitwise_right_shift": "({x} >> {y})",
}
BINARY_BOOL = {
    "mul": "({x} && {y})", "logical_and": "({x} && {y})", "logical_or": "({x} || {y})", "logical_xor": "({x} != {y})",
    "bitwise_and": "({x} && {y})", "bitwise_or": "({x} || {y})", "bitwise_xor": "({x} != {y})", "maximum": "({x} || {y})",
    "minimum": "({x} && {y})",
}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
VIEWS = {
    "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "permute", "transpose", "t", "expand", "slice", "select", "alias",
    "detach", "clone", "contiguous", "lift_fresh_copy", "flip", "view_copy", "as_strided", "split", "split_with_sizes", "unbind",
    "diagonal", "lift_fresh", "copy", "roll", "positive",
}
SAME_ORDER = {"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "alias", "detach", "clone", "contiguous", "view_copy", "lift_fresh_copy"}


def operation(node) -> str:
    """The name of a node's operation, without namespace and overload."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.split("::")[1]
    return getattr(target, "__name__", str(target))


def kind_of(dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "b"
    if dtype.is_floating_point:
        return "f"
    if dtype.is_complex:
        raise Unsupported("complex numbers are not supported")
    return "i"


@dataclasses.dataclass
class Pass:
    """One walk over the elements of a reduction. how: sum, prod, max, min, any, all, argmax, argmin."""

    how: str
    term: Callable  # (code, indices, results of the passes before) -> text
    kind: str = "f"
    after: Callable | None = None  # text of the accumulator -> text of the result


class Lowering:
    """Makes one variant, for one target."""

    def __init__(self, traced: Traced, task: str, target: str):
        self.traced, self.task, self.target = traced, task, target
        self.functions: list[str] = []
        self.launches: list[str] = []  # of the manifest
        self.workspaces: list[tuple[str, str]] = []
        self.tables: list[str] = []
        self.env: dict = {}
        self.counts: dict[str, int] = {}
        self.direct: dict = {}  # node -> output that it computes
        self.outputs: list[Buffer] = []
        self.dims = {d.name for d in traced.dimensions if d.default is None}
        self.taken = {t.name for t in [*traced.inputs, *traced.outputs]} | set(traced.dims)

    # Types and names

    def widen(self, dtype: str) -> str:
        return "widened" if dtype == "work" else f"widened_{dtype}"

    def narrow(self, dtype: str) -> str:
        return "narrowed" if dtype == "work" else f"narrowed_{dtype}"

    def c_type(self, buffer: Buffer) -> str:
        if buffer.dtype == "work":
            return "float" if self.target == "cpu" else "Element"
        return {
            "f32": "float", "f16": "unsigned short", "bf16": "unsigned short", "i64": "long long", "i32": "int", "i16": "short",
            "i8": "signed char", "u8": "unsigned char",
        }[buffer.dtype]

    def label(self, name: str) -> str:
        reserved = {
            "thread", "threads", "first", "last", "total", "unit", "row", "from", "to", "strips", "infinity", "part", "sums",
            "outputs", "each", "int", "float", "double", "long", "short", "char", "bool", "const", "auto", "new", "this", "class",
            "struct", "for", "if", "do", "while", "else", "return", "void", "template", "operator", "default", "switch", "case",
            "i64", "exp", "log", "pow", "sqrt", "sin", "cos", "tan", "y0", "y1", "j0", "j1", "yn", "jn", "gamma", "signed", "unsigned",
        }
        if name in reserved or re.fullmatch(r"(size|space|table|sums?|parts?)_?\d*|width|depth|columns|factor|best|where|left|top|end|low|high|element|half|mine|other|larger|smaller(_of)?|greater|widened|narrowed|quotient_up|floor_quotient|not_a_number|erf.*|exp.*|log.*|half|index", name) or re.fullmatch(r"[a-z]{1,2}\d*", name) and not re.fullmatch(r"[xyw]", name) or name in self.dims:
            return name + "_data"
        return name

    def tensor(self, info, output: bool) -> Buffer:
        floating = info.dtype in ("f32", "f16", "bf16", "f64", "e4m3", "e5m2")
        if info.dtype in ("f64", "e4m3", "e5m2"):
            raise Unsupported(f"the dtype {info.dtype} of {info.name} is not supported")
        kind = "b" if info.is_bool else "f" if floating else "i"
        work = floating and info.dtype == self.traced.dtype
        if self.target == "cpu" and floating and not work and info.dtype != "f32":
            raise Unsupported(f"the dtype {info.dtype} of {info.name} is not supported on a cpu")
        return Buffer(info.name, self.label(info.name), "work" if work else info.dtype, kind, is_input=not output)

    def workspace(self, kind: str, shape) -> Buffer:
        number = len(self.workspaces)
        name = f"space_{number}"
        while name in self.taken:
            name += "_"
        size = {"f": 4, "i": 8, "b": 1}[kind]
        self.workspaces.append((name, to_task_plain(size * _product(shape))))
        return Buffer(name, name, {"f": "f32", "i": "i64", "b": "u8"}[kind], kind)

    def shape_of(self, node) -> list:
        return self.sizes_of(node.meta["val"])

    def sizes_of(self, value) -> list:
        """The shape of a fake tensor. Sizes that are sums or quotients get names, so that positions stay short."""
        return [self.named(s) for s in self.traced.shape(value)]

    def named(self, size):
        if size.is_Number or size.is_Symbol:
            return size
        if size.is_Mul:
            return sympy.Mul(*[self.named(f) for f in size.args])
        for symbol, meaning in _NAMED.items():
            if meaning == size:
                return symbol
        symbol = sympy.Symbol(f"size_{len(_NAMED)}", integer=True, positive=True)
        _NAMED[symbol] = size
        return symbol

    def e(self, size) -> sympy.Expr:
        if isinstance(size, torch.fx.Node):
            size = size.meta["val"]
        return self.traced.expression(size)

    # Kernels

    def kernel(self, what: str, body: Callable, total=None, per_block: bool = False):
        """One launch. body(code) writes it; cuda: `total` elements or (per_block) outputs are dealt out."""
        self.counts[what] = self.counts.get(what, 0) + 1
        name = f"{what}_{len(self.functions)}"
        code = Code(self)
        body(code)
        text = "\n".join(code.lines)
        words = set(re.findall(r"[A-Za-z_]\w*", text))
        used = [(symbol.name, meaning) for symbol, meaning in _NAMED.items() if symbol.name in words]
        for _, meaning in used:
            words |= {symbol.name for symbol in meaning.free_symbols}
        dims = [d.name for d in self.traced.dimensions if d.name in words and d.name in self.dims]
        parameters, args = [], []
        for buffer, written in code.buffers.items():
            const = "" if written else "const "
            parameters.append(f"{const}{self.c_type(buffer)}* __restrict__ {buffer.label}")
            args.append(buffer.name)
        for d in dims:
            parameters.append(f"int {d}_")
            args.append(d)
        head = f"  const i64 {', '.join(f'{d} = {d}_' for d in dims)};\n" if dims else ""
        head += "".join(f"  const i64 {n} = {to_cpp(meaning)};\n" for n, meaning in used)
        if len(args) > 62:
            raise Unsupported(f"a kernel has {len(args)} arguments")
        if self.target == "cpu":
            parameters += ["int thread", "int threads"]
            args += ["thread", "threads"]
            opening = f'extern "C" void {name}('
            launch = f"  - kernel: {name}\n    threads: num_cores\n    args: [{', '.join(args)}]"
        else:
            opening = f'extern "C" __global__ void __launch_bounds__(THREADS)\n    {name}('
            blocks = to_task_plain(total) if per_block else f"ceil_div({to_task_plain(total)}, THREADS)"
            launch = (
                f'  - kernel: {name}\n    grid: ["min({blocks}, 1048576)", 1, 1]\n    block: [THREADS, 1, 1]\n'
                f"    args: [{', '.join(args)}]"
            )
        self.functions.append(f"{opening}{', '.join(parameters)}) {{\n{head}{text}\n}}\n")
        self.launches.append(launch)
        if len(self.launches) > LAUNCHES_MAX:
            raise Unsupported(f"more than {LAUNCHES_MAX} kernels are needed")

    def deal(self, code: Code, total):
        """Opens the loop over `unit`, dealt over threads."""
        code.line(f"const i64 total = {to_cpp(total)};")
        if self.target == "cpu":
            code.line("const i64 first = total * thread / threads, last = total * (thread + 1) / threads;")
            code.open("for (i64 unit = first; unit < last; ++unit)")
        else:
            code.open("for (i64 unit = blockIdx.x * (i64)THREADS + threadIdx.x; unit < total; unit += gridDim.x * (i64)THREADS)")

    def decompose(self, code: Code, variable: str, shape, prefix: str = "i") -> list:
        """The indices of a position, as variables."""
        idx = []
        rest = variable
        live = [n for n, s in enumerate(shape) if s != 1]
        result: list = [_ZERO] * len(shape)
        for order, n in enumerate(reversed(live)):
            s = to_cpp(shape[n])
            name = code.fresh(prefix)
            if order == len(live) - 1:
                code.line(f"const i64 {name} = {rest};")
            else:
                bracketed = s if re.fullmatch(r"\w+", s) else f"({s})"
                code.line(f"const i64 {name} = {rest} % {bracketed};")
                rest_name = code.fresh("q")
                code.line(f"const i64 {rest_name} = {rest} / {bracketed};")
                rest = rest_name
            result[n] = _variable(name)
        del idx
        return result

    def elements(self, code: Code, shape, body: Callable):
        """A loop over all elements of a shape: body(indices). On a cpu the innermost loop is over the last axis."""
        shape = list(shape)
        live = [n for n, s in enumerate(shape) if s != 1]
        if self.target == "cuda" or not live:
            self.deal(code, _product(shape))
            if not live:
                body([_ZERO] * len(shape))
            else:
                body(self.decompose(code, "unit", shape))
            code.close()
            return
        inner = live[-1]
        width = to_cpp(shape[inner])
        name = code.fresh("i")
        if len(live) == 1:
            code.line(f"const i64 total = {width};")
            code.line("const i64 first = total * thread / threads, last = total * (thread + 1) / threads;")
            code.open(f"for (i64 {name} = first; {name} < last; ++{name})")
            idx = [_ZERO] * len(shape)
            idx[inner] = _variable(name)
            body(idx)
            code.close()
            return
        code.line(f"const i64 width = {width}, total = {_wrap(to_cpp(_product(shape[:inner])))} * width;")
        code.line("const i64 first = total * thread / threads, last = total * (thread + 1) / threads;")
        code.open("for (i64 row = first / width; row * width < last; ++row)")
        code.line("const i64 from = first > row * width ? first - row * width : 0;")
        code.line("const i64 to = last < (row + 1) * width ? last - row * width : width;")
        idx = self.decompose(code, "row", shape[:inner]) + [_variable(name)] + [_ZERO] * (len(shape) - inner - 1)
        code.open(f"for (i64 {name} = from; {name} < to; ++{name})")
        body(idx)
        code.close()
        code.close()

    def merge_all(self, value: Value, keep: set = frozenset()) -> Value:
        """Joins neighbouring axes where no division is needed. `keep`: axes that must remain as they are joined only among
        themselves; used for reductions with a label for each axis."""
        axis = len(value.shape) - 2
        while axis >= 0:
            joined = value.merged(axis)
            if joined is not None:
                value = joined
            axis -= 1
        return value

    def point(self, value: Value, buffer: Buffer):
        joined = self.merge_all(value)

        def body(code):
            def one(idx):
                code.store(buffer, _flat(idx, joined.shape), cast(joined.at(code, idx), joined.kind, buffer.kind))

            self.elements(code, joined.shape, one)

        self.kernel("elements", body, _product(value.shape))

    def realized(self, value: Value, buffer: Buffer | None = None) -> Stored:
        if buffer is None:
            if isinstance(value, Stored):
                return value
            buffer = self.workspace(value.kind, value.shape)
        self.point(value, buffer)
        return Stored(buffer, value.shape)

    def operand(self, value: Value) -> Value:
        """For a kernel that reads elements often: a view of a buffer."""
        probe = [_variable(f"p{n}") for n in range(len(value.shape))]
        return value if value.place(probe) is not None else self.realized(value)

    # Results of kernels, and what is fused behind them

    def finish(self, node, kind: str):
        """Where a kernel's result goes: (store(code, indices, text), to be called when the kernel is written). Element-wise
        operations behind the node that nothing else uses are computed with it."""
        shape = self.shape_of(node)
        hole = Hole(kind, shape)
        current, chain, value = node, [], hole
        ops = 0
        while current not in self.direct and len(current.users) == 1:
            user = next(iter(current.users))
            if user.op != "call_function" or user in self.env:
                break
            name = operation(user)
            if name in SAME_ORDER and current is user.args[0]:
                if not _same(_product(self.shape_of(user)), _product(shape)):
                    break
                followers = list(user.users)
                if len(followers) == 1 and followers[0].op == "output" and user not in self.direct:
                    break
                chain.append((user, View(Hole(kind, shape), self.shape_of(user), lambda idx: idx)))
                current = user
                continue
            if not self.is_pointwise(user) or not _same(_product(self.shape_of(user)), _product(shape)):
                break
            if len(self.shape_of(user)) != len(self.shape_of(current)):
                break
            others = [a for a in user.all_input_nodes if a is not current]
            if not all(self.available(a) for a in others):
                break
            ops += 1
            if ops > 24:
                break
            chain.append((user, None))
            current = user
        # Views at the end of the chain are left to those who use them.
        while chain and chain[-1][1] is not None and chain[-1][0] not in self.direct:
            chain.pop()
        self.env[node] = hole
        last = node
        for user, view in chain:
            if view is not None:
                same = Hole(kind, self.shape_of(user))
                before = self.env[last]
                self.env[user] = before if before.shape == same.shape else _Relabelled(before, self.shape_of(user))
            else:
                self.env[user] = self.pointwise(user)
            last = user
        value = self.env[last]
        final_shape = self.shape_of(last)
        buffer = self.output_buffer(last) or self.workspace(value.kind, final_shape)
        for user, _ in chain:
            self.env[user] = _Done()
        self.env[node] = _Done()
        self.env[last] = Stored(buffer, final_shape)

        def store(code, idx, text):
            hole.text = text
            inner = _reshaped(idx, shape, final_shape) if final_shape != shape else idx
            result = cast(value.at(code, inner), value.kind, buffer.kind)
            code.store(buffer, _flat(idx, shape), result)

        return store

    def output_buffer(self, node) -> Buffer | None:
        number = self.direct.get(node)
        return None if number is None else self.outputs[number]

    def available(self, node) -> bool:
        """Whether a node's value is known; views of known values are made on demand."""
        if node in self.env:
            return not isinstance(self.env[node], (_Done, Hole))
        if node.op != "call_function":
            return node.op == "placeholder"
        if not isinstance(node.meta.get("val"), torch.Tensor):
            return True
        if operation(node) in VIEWS and all(self.available(a) for a in node.all_input_nodes):
            self.lower(node)
            return True
        return False

    def is_pointwise(self, node) -> bool:
        name = operation(node)
        return isinstance(node.meta.get("val"), torch.Tensor) and (
            name in UNARY or name in BINARY or name in BINARY_BOOL or name in COMPARE or name in SPECIAL
        )

    # Arguments

    def value(self, arg, kind: str | None = None, shape=None) -> Value:
        """An argument as a value, converted and broadcast."""
        if isinstance(arg, torch.fx.Node) and isinstance(arg.meta.get("val"), torch.Tensor):
            value = self.env[arg]
            if isinstance(value, _Done):
                raise Unsupported(f"{operation(arg)}: a fused value is used twice")
        elif isinstance(arg, torch.fx.Node):
            e = self.e(arg)
            k = kind or ("i" if e.is_integer else "f")
            value = Constant(f"({C_TYPES[k]})({to_cpp(e)})", k, [])
        elif isinstance(arg, bool):
            value = Constant(literal(arg, kind or "b"), kind or "b", [])
        elif isinstance(arg, int):
            value = Constant(literal(arg, kind or "i"), kind or "i", [])
        elif isinstance(arg, float):
            value = Constant(literal(arg, kind or "f"), kind or "f", [])
        else:
            raise Unsupported(f"an argument of the type {type(arg).__name__}")
        if kind and value.kind != kind:
            value = self.converted(value, kind)
        if shape is not None:
            value = self.expanded(value, shape)
        return value

    def converted(self, value: Value, kind: str) -> Value:
        if value.kind == kind:
            return value
        source = value.kind
        if isinstance(value, Constant):
            return Constant(cast(value.text, source, kind), kind, value.shape)
        return Pointwise(value.shape, kind, [value], lambda x: cast(x, source, kind), ops=0)

    def expanded(self, value: Value, shape) -> Value:
        shape = list(shape)
        if len(value.shape) == len(shape) and all(_same(a, b) for a, b in zip(value.shape, shape)):
            return value
        if isinstance(value, Constant):
            return Constant(value.text, value.kind, shape)
        if isinstance(value, (Hole, _Relabelled)):
            raise Unsupported("a broadcast of a result in its own kernel")
        if (value.heavy or value.ops > 3) and any(a == 1 and b != 1 for a, b in zip(value.shape[::-1], shape[::-1])):
            value = self.realized(value)
        return Expanded(value, shape)

    # Operations

    def lower(self, node):
        if node in self.env:
            return
        if node.op == "get_attr":
            self.env[node] = self.constant_tensor(node)
            return
        if node.op != "call_function":
            raise Unsupported(f"{node.op} {node.target}")
        name = operation(node)
        if node.target is operator.getitem:
            whole = self.env[node.args[0]]
            self.env[node] = whole[node.args[1]]
            if isinstance(self.env[node], Value):
                self.settle(node, self.env[node])
            return
        values = node.meta.get("val")
        if not isinstance(values, (torch.Tensor, tuple, list)):
            return  # a size: printed where it is used
        if self.is_pointwise(node):
            self.settle(node, self.pointwise(node))
            return
        method = getattr(self, f"op_{name.lstrip('_')}", None)
        if method is None:
            raise Unsupported(f"{name}: there is no rule for it ({node.target})")
        result = method(node)
        if result is not None:
            if isinstance(result, Value):
                self.settle(node, result)
            else:
                self.env[node] = result

    def settle(self, node, value: Value):
        """Keeps a value as it is, or computes it now."""
        uses = sum(1 for _ in node.users)
        buffer = self.output_buffer(node)
        if buffer is not None:
            if uses == 1:
                self.env[node] = self.realized(value, buffer)
                return
        if not isinstance(value, (Stored, Constant, Table)):
            costly = value.heavy > 0 or value.ops >= 4
            if (uses > 1 and costly) or value.ops > 40 or value.loads > 10:
                value = self.realized(value)
        self.env[node] = value

    def constant_tensor(self, node) -> Value:
        tensor = getattr(self.traced.graph, node.target)
        kind = kind_of(tensor.dtype)
        if tensor.numel() > 4096:
            raise Unsupported(f"a constant tensor of {tensor.numel()} elements")
        flat = tensor.detach().reshape(-1).tolist()
        shape = [sympy.Integer(s) for s in tensor.shape]
        if tensor.dim() == 0:
            return Constant(literal(flat[0], kind), kind, [])
        label = f"table_{len(self.tables)}"
        c_type = {"f": "float", "i": "long long", "b": "bool"}[kind]
        memory = "constexpr" if self.target == "cpu" else "__constant__ const"
        texts = [literal(v, kind) for v in flat]
        self.tables.append(f"{memory} {c_type} {label}[] = {{{', '.join(texts)}}};\n")
        return Table(label, shape, kind)

    def pointwise(self, node) -> Value:
        name = operation(node)
        shape = self.shape_of(node)
        kind = kind_of(node.meta["val"].dtype)
        if name in SPECIAL:
            return SPECIAL[name](self, node, shape, kind)
        if name in COMPARE:
            kinds = [self.value(a).kind for a in node.args[:2]]
            common = "f" if "f" in kinds else "i"
            x, y = (self.value(a, common, shape) for a in node.args[:2])
            return Pointwise(shape, "b", [x, y], lambda a, b, s=COMPARE[name]: f"({a} {s} {b})")
        count = 1 if name in UNARY else 2
        table = {("f", 1): UNARY, ("i", 1): UNARY_INT, ("f", 2): BINARY, ("i", 2): BINARY_INT, ("b", 2): BINARY_BOOL}.get((kind, count), {})
        if name == "div" and node.kwargs.get("rounding_mode"):
            mode = node.kwargs["rounding_mode"]
            x, y = (self.value(a, kind, shape) for a in node.args[:2])
            if kind == "f":
                return Pointwise(shape, kind, [x, y], lambda a, b: f"{'floorf' if mode == 'floor' else 'truncf'}({a} / {b})")
            return Pointwise(shape, kind, [x, y], lambda a, b: f"floor_quotient({a}, {b})" if mode == "floor" else f"({a} / {b})")
        if name not in table:
            raise Unsupported(f"{name} of {node.meta['val'].dtype}")
        pattern = table[name]
        heavy = int(pattern.startswith("!"))
        pattern = pattern.lstrip("!")
        args = [self.value(a, kind, shape) for a in node.args[:count]]
        if count == 1:
            return Pointwise(shape, kind, args, lambda x: pattern.format(x=x), heavy)
        return Pointwise(shape, kind, args, lambda x, y: pattern.format(x=x, y=y), heavy)

    # Changes of shape

    def op_view(self, node):
        return self.reshape(self.value(node.args[0]), self.shape_of(node))

    op_reshape = op_unsafe_view = op_unsqueeze = op_squeeze = op_view_copy = op_view

    def reshape(self, value: Value, shape) -> Value:
        shape = list(shape)
        if isinstance(value, Stored):
            return Stored(value.buffer, shape)
        if isinstance(value, Constant):
            return Constant(value.text, value.kind, shape)
        old = value.shape
        if len(old) == len(shape) and all(_same(a, b) for a, b in zip(old, shape)):
            return value
        return View(value, shape, lambda idx: _reshaped(idx, shape, old))

    def op_alias(self, node):
        return self.value(node.args[0])

    op_detach = op_clone = op_contiguous = op_lift_fresh_copy = op_lift_fresh = op_positive = op_alias

    def op_copy(self, node):
        return self.value(node.args[1], kind_of(node.meta["val"].dtype), self.shape_of(node))

    def op_permute(self, node):
        value = self.value(node.args[0])
        order = [d % len(value.shape) for d in node.args[1]]

        def mapping(idx):
            result = [None] * len(order)
            for i, d in zip(idx, order):
                result[d] = i
            return result

        return View(value, [value.shape[d] for d in order], mapping)

    def op_transpose(self, node):
        value = self.value(node.args[0])
        a, b = (d % len(value.shape) for d in node.args[1:3])

        def mapping(idx):
            idx[a], idx[b] = idx[b], idx[a]
            return idx

        return View(value, self.shape_of(node), mapping)

    def op_t(self, node):
        return View(self.value(node.args[0]), self.shape_of(node), lambda idx: idx[::-1])

    def op_expand(self, node):
        return self.expanded(self.value(node.args[0]), self.shape_of(node))

    def op_repeat(self, node):
        value = self.value(node.args[0])
        gap = len(node.args[1]) - len(value.shape)
        return View(value, self.shape_of(node), lambda idx: [Mod(i, s) if s != 1 else _ZERO for i, s in zip(idx[gap:], value.shape)])

    def bound(self, at, size, default):
        if at is None:
            return default
        at = self.e(at)
        if at.is_Integer and int(at) >= 2**62:
            return size
        if (at.is_Integer and int(at) < 0) or (not at.is_nonnegative and (-at).is_positive):
            return at + size
        return at

    def op_slice(self, node):
        value = self.value(node.args[0])
        dim = (node.args[1] if len(node.args) > 1 else 0) % len(value.shape)
        start = self.bound(node.args[2] if len(node.args) > 2 else None, value.shape[dim], _ZERO)
        step = self.e(node.args[4]) if len(node.args) > 4 else _ONE
        example = self.number(start), self.number(value.shape[dim])
        if example[0] < 0:
            start = _ZERO
        elif example[0] > example[1]:
            start = value.shape[dim]

        def mapping(idx):
            idx[dim] = idx[dim] * step + start
            return idx

        return View(value, self.shape_of(node), mapping)

    def number(self, e) -> int:
        e = _plain(e)
        return int(e.xreplace({s: sympy.Integer(self.traced.dims[s.name]) for s in e.free_symbols}))

    def op_select(self, node):
        value = self.value(node.args[0])
        dim = node.args[1] % len(value.shape)
        at = self.bound(node.args[2], value.shape[dim], _ZERO)
        return View(value, self.shape_of(node), lambda idx: [*idx[:dim], at, *idx[dim:]])

    def op_flip(self, node):
        value = self.value(node.args[0])
        dims = {d % len(value.shape) for d in node.args[1]}
        return View(value, value.shape, lambda idx: [s - 1 - i if n in dims else i for n, (i, s) in enumerate(zip(idx, value.shape))])

    def op_roll(self, node):
        value = self.value(node.args[0])
        shifts = node.args[1] if isinstance(node.args[1], (list, tuple)) else [node.args[1]]
        dims = node.args[2] if len(node.args) > 2 and node.args[2] else None
        if dims is None:
            raise Unsupported("roll without dims")
        shift = {d % len(value.shape): self.e(s) for s, d in zip(shifts, dims)}

        def mapping(idx):
            for d, s in shift.items():
                n = value.shape[d]
                if s.is_Integer and int(s) < 0:
                    idx[d] = Mod(idx[d] - s, n)
                else:
                    idx[d] = Mod(idx[d] + n * (FloorDiv(s, n) + 1) - s, n)
            return idx

        return View(value, value.shape, mapping)

    def op_split(self, node):
        value = self.value(node.args[0])
        dim = (node.args[2] if len(node.args) > 2 else 0) % len(value.shape)
        start, parts = _ZERO, []
        for part in node.meta["val"]:
            shape = self.sizes_of(part)
            parts.append(View(value, shape, lambda idx, s=start: [i + s if n == dim else i for n, i in enumerate(idx)]))
            start = start + shape[dim]
        return tuple(parts)

    op_split_with_sizes = op_split

    def op_unbind(self, node):
        value = self.value(node.args[0])
        dim = (node.args[1] if len(node.args) > 1 else 0) % len(value.shape)
        return tuple(
            View(value, self.sizes_of(part), lambda idx, at=sympy.Integer(n): [*idx[:dim], at, *idx[dim:]])
            for n, part in enumerate(node.meta["val"])
        )

    def op_diagonal(self, node):
        value = self.value(node.args[0])
        args = [*node.args[1:], *[0, 0, 1][len(node.args) - 1:]]
        offset, a, b = args[0], args[1] % len(value.shape), args[2] % len(value.shape)

        def mapping(idx):
            at = idx[-1]
            rest = iter(idx[:-1])
            up, down = max(offset, 0), max(-offset, 0)
            return [at + down if n == a else at + up if n == b else next(rest) for n in range(len(value.shape))]

        return View(value, self.shape_of(node), mapping)

    def op_as_strided(self, node):
        base = node.args[0]
        if base.op == "call_function" and operation(base) in VIEWS - SAME_ORDER:
            raise Unsupported("as_strided of a view whose elements are not in order")
        value = self.value(base)
        strides = [self.e(s) for s in node.args[2]]
        offset = self.e(node.args[3]) if len(node.args) > 3 and node.args[3] is not None else _ZERO
        shape = self.shape_of(node)
        old = value.shape
        if _same(_product(shape), _product(old)) and offset == 0 and all(
            s == 1 or _same(stride, _product(shape[n + 1:])) for n, (s, stride) in enumerate(zip(shape, strides))
        ):
            return self.reshape(value, shape)
        if not isinstance(value, Stored):
            value = self.realized(value)
        flat_value = Stored(value.buffer, [_product(old)])
        return View(flat_value, shape, lambda idx: [offset + sum((i * s for i, s in zip(idx, strides)), _ZERO)])

    def op_unfold(self, node):
        value = self.value(node.args[0])
        dim, step = node.args[1] % len(value.shape), self.e(node.args[3])

        def mapping(idx):
            inner = idx.pop()
            idx[dim] = idx[dim] * step + inner
            return idx

        return View(value, self.shape_of(node), mapping)

    def op_log_sigmoid_forward(self, node):
        x = self.value(node.args[0], "f")
        return (Pointwise(x.shape, "f", [x], lambda a: f"fminf({a}, 0.0f) - log1pf(expf(-fabsf({a})))", 1), None)

    # Parts of tensors

    def op_cat(self, node):
        parts = [p for p in node.args[0] if not (p.meta["val"].dim() == 1 and p.meta["val"].shape[0] == 0)]
        kind, shape = kind_of(node.meta["val"].dtype), self.shape_of(node)
        dim = (node.args[1] if len(node.args) > 1 else 0) % len(shape)
        values = [self.value(p, kind) for p in parts]
        values = [v if v.loads <= 4 and v.ops < 12 else self.realized(v) for v in values]
        ends, end = [], _ZERO
        for v in values:
            end = end + v.shape[dim]
            ends.append(end)
        result = values[-1]
        start = ends[-2] if len(ends) > 1 else _ZERO
        shifted = lambda s: lambda idx: [i - s if n == dim else i for n, i in enumerate(idx)]
        at = shifted(start)
        for number in range(len(values) - 2, -1, -1):
            start = ends[number - 1] if number else _ZERO
            result = Choice(
                shape, kind, lambda idx, e=ends[number]: f"{to_cpp(idx[dim])} < {to_cpp(e)}", values[number], shifted(start), result, at
            )
            at = lambda idx: idx
        if len(values) == 1:
            return values[0]
        if result.loads > 4:
            return self.realized(result, self.output_buffer(node) if len(node.users) == 1 else None)
        return result

    def op_stack(self, node):
        kind, shape = kind_of(node.meta["val"].dtype), self.shape_of(node)
        dim = (node.args[1] if len(node.args) > 1 else 0) % len(shape)
        values = [self.value(p, kind) for p in node.args[0]]
        without = lambda idx: [i for n, i in enumerate(idx) if n != dim]
        result, at = values[-1], without
        for number in range(len(values) - 2, -1, -1):
            result = Choice(shape, kind, lambda idx, k=number: f"{to_cpp(idx[dim])} == {k}", values[number], without, result, at)
            at = lambda idx: idx
        if len(values) == 1:
            return View(values[0], shape, without)
        return result

    def op_constant_pad_nd(self, node):
        value = self.value(node.args[0])
        pads = [self.e(p) for p in node.args[1]]
        fill = node.args[2] if len(node.args) > 2 else 0
        rank, shape = len(value.shape), self.shape_of(node)
        before = [_ZERO] * rank
        for n in range(len(pads) // 2):
            before[rank - 1 - n] = pads[2 * n]
        touched = [rank - 1 - n for n in range(len(pads) // 2) if pads[2 * n] != 0 or pads[2 * n + 1] != 0]
        if not touched:
            return value
        at = lambda idx: [i - b for i, b in zip(idx, before)]

        def condition(idx):
            tests = []
            for n in touched:
                i = to_cpp(idx[n] - before[n])
                tests.append(f"{i} >= 0 && {i} < {to_cpp(value.shape[n])}")
            return " && ".join(tests)

        return Choice(shape, value.kind, condition, value, at, Constant(literal(fill, value.kind), value.kind, []), lambda idx: idx)

    def op_slice_scatter(self, node):
        base, source = self.value(node.args[0]), self.value(node.args[1])
        rest = [*node.args[2:], *[0, None, None, 1][len(node.args) - 2:]]
        for n, key in enumerate(("dim", "start", "end", "step")):
            rest[n] = node.kwargs.get(key, rest[n])
        shape = self.shape_of(node)
        dim = rest[0] % len(shape)
        start = self.bound(rest[1], shape[dim], _ZERO)
        step = self.e(rest[3])

        def condition(idx):
            i = to_cpp(idx[dim] - start)
            tests = [f"{i} >= 0", f"{i} < {to_cpp(source.shape[dim] * step)}"]
            if step != 1:
                tests.append(f"({i}) % {to_cpp(step)} == 0")
            return " && ".join(tests)

        at = lambda idx: [FloorDiv(i - start, step) if n == dim else i for n, i in enumerate(idx)]
        return Choice(shape, base.kind, condition, source, at, base, lambda idx: idx)

    def op_select_scatter(self, node):
        base, source = self.value(node.args[0]), self.value(node.args[1])
        shape = self.shape_of(node)
        dim = node.args[2] % len(shape)
        at = self.bound(node.args[3], shape[dim], _ZERO)
        return Choice(
            shape, base.kind, lambda idx: f"{to_cpp(idx[dim])} == {to_cpp(at)}", source,
            lambda idx: [i for n, i in enumerate(idx) if n != dim], base, lambda idx: idx,
        )

    def triangle(self, node, sign: str):
        value = self.value(node.args[0])
        k = self.e(node.args[1]) if len(node.args) > 1 else _ZERO
        return Choice(
            value.shape, value.kind, lambda idx: f"{to_cpp(idx[-1] - idx[-2])} {sign} {to_cpp(k)}", value, lambda idx: idx,
            Constant(literal(0, value.kind), value.kind, []), lambda idx: idx,
        )

    def op_tril(self, node):
        return self.triangle(node, "<=")

    def op_triu(self, node):
        return self.triangle(node, ">=")

    def indexed(self, value: Value, code: Code, idx) -> sympy.Symbol:
        return _variable(code.let("i64", value.at(code, idx), "n"))

    def op_gather(self, node):
        base, index = self.value(node.args[0]), self.value(node.args[2])
        if not base.shape:
            return base
        dim = node.args[1] % len(base.shape)

        def where(code, idx):
            at = self.indexed(index, code, idx)
            return [at if n == dim else i for n, i in enumerate(idx)]

        return Lookup(self.shape_of(node), self.cheap(base), where)

    def cheap(self, value: Value) -> Value:
        return value

    def op_index_select(self, node):
        base, index = self.value(node.args[0]), self.value(node.args[2])
        dim = node.args[1] % len(base.shape)

        def where(code, idx):
            at = self.indexed(index, code, [idx[dim]] if index.shape else [])
            return [at if n == dim else i for n, i in enumerate(idx)]

        return Lookup(self.shape_of(node), base, where)

    def op_embedding(self, node):
        table, index = self.value(node.args[0]), self.value(node.args[1])

        def where(code, idx):
            return [self.indexed(index, code, idx[:-1]), idx[-1]]

        return Lookup(self.shape_of(node), table, where)

    def op_index(self, node):
        base = self.value(node.args[0])
        indices = list(node.args[1])
        indices += [None] * (len(base.shape) - len(indices))
        present = [n for n, i in enumerate(indices) if i is not None]
        if any(kind_of(indices[n].meta["val"].dtype) == "b" for n in present):
            raise Unsupported("index: a mask as an index gives a size that depends on values")
        values = {n: self.value(indices[n]) for n in present}
        rank = max(len(v.shape) for v in values.values())
        adjacent = present == list(range(present[0], present[-1] + 1))
        first = present[0] if adjacent else 0
        out = self.shape_of(node)
        common = out[first: first + rank]

        def where(code, idx):
            inner = idx[first: first + rank]
            rest = iter(idx[:first] + idx[first + rank:])
            result = []
            for n, s in enumerate(base.shape):
                if n in values:
                    v = values[n]
                    at = self.expanded(v, common).at(code, inner) if len(v.shape) else v.at(code, [])
                    wrapped = code.let("i64", f"{at} < 0 ? {at} + {to_cpp(s)} : {at}", "n")
                    result.append(_variable(wrapped))
                else:
                    result.append(next(rest))
            return result

        return Lookup(out, base, where)

    op_unsafe_index = op_index

    # Values from nothing

    def op_full(self, node):
        kind = kind_of(node.meta["val"].dtype)
        return self.value(node.args[1], kind, self.shape_of(node))

    def op_scalar_tensor(self, node):
        return self.value(node.args[0], kind_of(node.meta["val"].dtype), [])

    def op_full_like(self, node):
        return self.value(node.args[1], kind_of(node.meta["val"].dtype), self.shape_of(node))

    def op_new_full(self, node):
        return self.value(node.args[2], kind_of(node.meta["val"].dtype), self.shape_of(node))

    def filled(self, node, number):
        kind = kind_of(node.meta["val"].dtype)
        return Constant(literal(number, kind), kind, self.shape_of(node))

    def op_zeros(self, node):
        return self.filled(node, 0)

    op_zeros_like = op_new_zeros = op_zeros

    def op_ones(self, node):
        return self.filled(node, 1)

    op_ones_like = op_new_ones = op_ones

    def op_empty(self, node):
        return self.filled(node, 0)

    op_empty_like = op_new_empty = op_empty_strided = op_empty_permuted = op_empty

    def op_arange(self, node):
        kind = kind_of(node.meta["val"].dtype)
        args = list(node.args)
        start = args[0] if len(args) > 1 else 0
        step = args[2] if len(args) > 2 else 1
        s, t = self.value(start, kind).text, self.value(step, kind).text
        c = C_TYPES[kind]
        return Index(self.shape_of(node), kind, lambda idx: f"{s} + ({c})({to_cpp(idx[0])}) * {t}")

    def op_iota(self, node):
        start, step = self.e(node.kwargs.get("start", 0)), self.e(node.kwargs.get("step", 1))
        return Index(self.shape_of(node), "i", lambda idx: to_cpp(start + step * idx[0]))

    # Reductions

    def reduced_dims(self, node, position: int = 1):
        rank = node.args[0].meta["val"].dim()
        dims = node.args[position] if len(node.args) > position else node.kwargs.get("dim")
        if dims is None or (isinstance(dims, (list, tuple)) and not dims):
            dims = list(range(rank))
        if not isinstance(dims, (list, tuple)):
            dims = [dims]
        return sorted({d % rank if rank else 0 for d in dims}) if rank else []

    def op_sum(self, node):
        kind = kind_of(node.meta["val"].dtype)
        value = self.value(node.args[0], kind)
        return self.reduction(node, value, self.reduced_dims(node), [Pass("sum", lambda c, idx, r, v: v.at(c, idx), kind)], kind)

    def op_mean(self, node):
        value = self.value(node.args[0], "f")
        dims = self.reduced_dims(node)
        count = to_cpp(_product(value.shape[d] for d in dims))
        return self.reduction(
            node, value, dims, [Pass("sum", lambda c, idx, r, v: v.at(c, idx), "f", lambda a: f"{a} / (double)({count})")], "f"
        )

    def op_prod(self, node):
        kind = kind_of(node.meta["val"].dtype)
        value = self.value(node.args[0], kind)
        return self.reduction(node, value, self.reduced_dims(node), [Pass("prod", lambda c, idx, r, v: v.at(c, idx), kind)], kind)

    def extreme(self, node, how):
        value = self.value(node.args[0])
        return self.reduction(node, value, self.reduced_dims(node), [Pass(how, lambda c, idx, r, v: v.at(c, idx), value.kind)], value.kind)

    def op_amax(self, node):
        return self.extreme(node, "max")

    def op_amin(self, node):
        return self.extreme(node, "min")

    def op_max(self, node, how="max"):
        if len(node.args) == 1:
            return self.extreme(node, how)
        value = self.value(node.args[0])
        dims = self.reduced_dims(node)
        return self.reduction(
            node, value, dims, [Pass("arg" + how, lambda c, idx, r, v: v.at(c, idx), value.kind)], value.kind,
            outputs=[(value.kind, lambda r: f"{r[0]}.value"), ("i", lambda r: f"{r[0]}.index")],
        )

    def op_min(self, node):
        return self.op_max(node, "min")

    def op_argmax(self, node, how="argmax"):
        value = self.value(node.args[0])
        return self.reduction(
            node, value, self.reduced_dims(node), [Pass(how, lambda c, idx, r, v: v.at(c, idx), value.kind)], "i",
            finish=lambda r: f"{r[0]}.index",
        )

    def op_argmin(self, node):
        return self.op_argmax(node, "argmin")

    def op_any(self, node, how="any"):
        value = self.value(node.args[0], "b")
        return self.reduction(node, value, self.reduced_dims(node), [Pass(how, lambda c, idx, r, v: v.at(c, idx), "b")], "b")

    def op_all(self, node):
        return self.op_any(node, "all")

    def variance(self, node, outputs):
        value = self.value(node.args[0], "f")
        if value.heavy or value.ops > 6 or value.loads > 4:
            value = self.realized(value)
        dims = self.reduced_dims(node)
        correction = node.kwargs.get("correction", 1)
        correction = 1 if correction is None else correction
        if isinstance(correction, float) and correction.is_integer():
            correction = int(correction)
        count = _product(value.shape[d] for d in dims)
        n, below = to_cpp(count), to_cpp(count - correction)
        passes = [
            Pass("sum", lambda c, idx, r, v: v.at(c, idx), "f", lambda a: f"{a} / (double)({n})"),
            Pass("sum", lambda c, idx, r, v: _square(c, f"{v.at(c, idx)} - {r[0]}"), "f", lambda a: f"{a} / (double)({below})"),
        ]
        if outputs == 1:
            return self.reduction(node, value, dims, passes, "f", finish=lambda r: r[1])
        return self.reduction(node, value, dims, passes, "f", outputs=[("f", lambda r: r[1]), ("f", lambda r: r[0])])

    def op_var(self, node):
        return self.variance(node, 1)

    def op_var_mean(self, node):
        return self.variance(node, 2)

    def reduction(self, node, value: Value, dims, passes, kind, finish=None, outputs=None):
        """Writes a reduction. `outputs` for operations with several results: [(kind, text of the results)]."""
        shape = list(value.shape)
        if isinstance(value, (Hole,)):
            raise Unsupported("a reduction of a fused value")
        if not dims and shape == []:
            # A reduction of one number.
            value = View(value, [_ONE], lambda idx: [])
            shape, dims = [_ONE], [0]
        kept = [n for n in range(len(shape)) if n not in dims]
        if outputs is None:
            finish = finish or (lambda r: r[0])
            store = self.finish(node, kind)
            out_shape = self.shape_of(node)
            keeps = len(out_shape) == len(shape) and kept != list(range(len(shape)))

            def done(code, idx, results):
                full = list(idx)
                if keeps:
                    positions = dict(zip(kept, idx))
                    full = [positions.get(n, _ZERO) for n in range(len(shape))]
                elif len(out_shape) != len(idx):
                    full = list(idx)[: len(out_shape)]
                text = finish(results)
                store(code, full, f"({C_TYPES[kind]})({text})")
        else:
            users = {u.args[1]: u for u in node.users if u.target is operator.getitem}
            buffers = []
            for number, (k, text) in enumerate(outputs):
                s = self.sizes_of(node.meta["val"][number])
                if number not in users:
                    buffers.append(None)
                    continue
                direct = self.output_buffer(users[number])
                if direct is not None and len(users[number].users) == 1:
                    buffers.append((direct, s))
                    self.env[users[number]] = Stored(direct, s)
                else:
                    buffers.append((self.workspace(k, s), s))
            self.env[node] = tuple(Stored(*b) if b else None for b in buffers)

            def done(code, idx, results):
                position = _flat(idx, [shape[n] for n in kept])
                for b, (k, text) in zip(buffers, outputs):
                    if b:
                        code.store(b[0], position, f"({C_TYPES[k]})({text(results)})")

        # Neighbouring axes that are both kept or both reduced become one.
        labels = [n in dims for n in range(len(shape))]
        arg = any(p.how.startswith("arg") for p in passes)
        merged, merged_labels = value, list(labels)
        groups = [[n] for n in range(len(shape))]
        axis = len(merged_labels) - 2
        while axis >= 0:
            if merged_labels[axis] == merged_labels[axis + 1]:
                joined = merged.merged(axis)
                if joined is not None:
                    merged = joined
                    del merged_labels[axis + 1]
                    groups[axis: axis + 2] = [groups[axis] + groups[axis + 1]]
            axis -= 1
        sizes = merged.shape
        outer = [n for n, r in enumerate(merged_labels) if not r]
        inner = [n for n, r in enumerate(merged_labels) if r]

        def original(idx_kept):
            """Indices of the kept axes as they were."""
            by_group = dict(zip(outer, idx_kept))
            result = {}
            for n in outer:
                g = groups[n]
                for axis_, i in zip(g, _unflatten(by_group[n], [shape[a] for a in g])):
                    result[axis_] = i
            return [result[n] for n in kept]

        def index_of(idx):
            """The position within the reduced axes, for the index of a maximum."""
            return to_cpp(_flat([idx[n] for n in inner], [sizes[n] for n in inner]))

        self.write_reduction(merged, sizes, outer, inner, passes, lambda code, idx, results: done(code, original(idx), results), index_of)
        return None

    def accumulator(self, p: Pass):
        """C type, first value, text of a step (accumulator, term)."""
        real = p.kind == "f"
        if p.how == "sum":
            return ("double" if real else "i64"), ("0.0" if real else "0"), lambda a, t: f"{a} += {t};"
        if p.how == "prod":
            return ("double" if real else "i64"), ("1.0" if real else "1"), lambda a, t: f"{a} *= {t};"
        least, most = ("-infinity()", "infinity()") if real else (literal(-(2**63), "i"), literal(2**63 - 1, "i"))
        c = "float" if real else "i64"
        if p.how == "max":
            return c, least, lambda a, t: f"{a} = {t} > {a} ? {t} : {a};"
        if p.how == "min":
            return c, most, lambda a, t: f"{a} = {t} < {a} ? {t} : {a};"
        if p.how == "any":
            return "bool", "false", lambda a, t: f"{a} = {a} || {t};"
        if p.how == "all":
            return "bool", "true", lambda a, t: f"{a} = {a} && {t};"
        if p.how in ("argmax", "argmin"):
            best = f"Best<{c}>"
            first = least if p.how == "argmax" else most
            word = "greater" if p.how == "argmax" else "smaller"
            return best, f"{best}{{{first}, -1}}", lambda a, t: f"{a} = {word}({a}, {t});"
        raise Unsupported(p.how)

    def term(self, p: Pass, code, idx, results, value, index_of):
        text = p.term(code, idx, results, value)
        if p.how.startswith("arg"):
            c = "float" if p.kind == "f" else "i64"
            text = text if p.kind != "b" else f"(i64){text}"
            return f"Best<{c}>{{{text}, {index_of(idx)}}}"
        return text

    def write_reduction(self, value, sizes, outer, inner, passes, done, index_of):
        total = _product(sizes[n] for n in outer)
        cpu = self.target == "cpu"
        rank = len(sizes)
        strips = cpu and outer and sizes[outer[-1]] != 1 and outer[-1] == rank - 1
        blocks = not cpu and bool(inner) and inner[-1] == rank - 1

        def loops(code, axes, idx, body):
            names = []
            for n in axes:
                name = code.fresh("r")
                code.open(f"for (i64 {name} = 0; {name} < {to_cpp(sizes[n])}; ++{name})")
                idx[n] = _variable(name)
                names.append(name)
            body()
            for _ in names:
                code.close()

        def by_strips(code):
            last_axis = outer[-1]
            code.line(f"const i64 width = {to_cpp(sizes[last_axis])}, strips = (width + TILE - 1) / TILE;")
            rows = _product(sizes[n] for n in outer[:-1])
            code.line(f"const i64 total = {_wrap(to_cpp(rows))} * strips;")
            code.line("const i64 first = total * thread / threads, last = total * (thread + 1) / threads;")
            for number, p in enumerate(passes):
                code.line(f"{self.accumulator(p)[0]} sums{number}[TILE];")
            code.open("for (i64 unit = first; unit < last; ++unit)")
            code.line("const i64 row = unit / strips, left = unit % strips * TILE;")
            code.line("const i64 columns = width - left < TILE ? width - left : TILE;")
            idx = [_ZERO] * rank
            for n, i in zip(outer[:-1], self.decompose(code, "row", [sizes[n] for n in outer[:-1]])):
                idx[n] = i
            results = []
            for number, p in enumerate(passes):
                _, start, step = self.accumulator(p)
                code.line(f"for (i64 j = 0; j < columns; ++j) sums{number}[j] = {start};")

                def body():
                    code.open("for (i64 j = 0; j < columns; ++j)")
                    idx[last_axis] = _variable("left") + _variable("j")
                    code.line(step(f"sums{number}[j]", self.term(p, code, idx, results, value, index_of)))
                    code.close()

                loops(code, inner, idx, body)
                if p.after:
                    code.line(f"for (i64 j = 0; j < columns; ++j) sums{number}[j] = {p.after(f'sums{number}[j]')};")
                results.append(f"sums{number}[j]")
            code.open("for (i64 j = 0; j < columns; ++j)")
            idx[last_axis] = _variable("left") + _variable("j")
            done(code, [idx[n] for n in outer], results)
            code.close()
            code.close()

        def by_outputs(code):
            self.deal(code, total)
            idx = [_ZERO] * rank
            for n, i in zip(outer, self.decompose(code, "unit", [sizes[n] for n in outer])):
                idx[n] = i
            results = []
            lanes = cpu and bool(inner) and inner[-1] == rank - 1
            for number, p in enumerate(passes):
                c_type, start, step = self.accumulator(p)
                name = f"sum{number}"
                code.line(f"{c_type} {name} = {start};")

                def plain():
                    code.line(step(name, self.term(p, code, idx, results, value, index_of)))

                def in_lanes():
                    n = inner[-1]
                    size = to_cpp(sizes[n])
                    r = code.fresh("r")
                    code.line(f"{c_type} part[LANES];")
                    code.line(f"for (int l = 0; l < LANES; ++l) part[l] = {start};")
                    code.line(f"i64 {r} = 0;")
                    code.open(f"for (; {r} + LANES <= {size}; {r} += LANES)")
                    code.open("for (int l = 0; l < LANES; ++l)")
                    idx[n] = _variable(r) + _variable("l")
                    code.line(step("part[l]", self.term(p, code, idx, results, value, index_of)))
                    code.close()
                    code.close()
                    code.open(f"for (; {r} < {size}; ++{r})")
                    idx[n] = _variable(r)
                    code.line(step("part[0]", self.term(p, code, idx, results, value, index_of)))
                    code.close()
                    code.line(f"for (int l = 0; l < LANES; ++l) {step(name, 'part[l]')}")

                if lanes:
                    def body():
                        code.open("")
                        in_lanes()
                        code.close()

                    loops(code, inner[:-1], idx, body)
                else:
                    loops(code, inner, idx, plain)
                if p.after:
                    code.line(f"{name} = {p.after(name)};")
                results.append(name)
            done(code, [idx[n] for n in outer], results)
            code.close()

        def by_blocks(code):
            code.line(f"const i64 outputs = {to_cpp(total)}, each = {to_cpp(_product(sizes[n] for n in inner))};")
            for number, p in enumerate(passes):
                code.line(f"__shared__ {_raw(self.accumulator(p)[0])} parts{number}[THREADS];")
            code.open("for (i64 unit = blockIdx.x; unit < outputs; unit += gridDim.x)")
            idx = [_ZERO] * rank
            for n, i in zip(outer, self.decompose(code, "unit", [sizes[n] for n in outer])):
                idx[n] = i
            results = []
            for number, p in enumerate(passes):
                c_type, start, step = self.accumulator(p)
                name = f"sum{number}"
                code.line(f"{c_type} {name} = {start};")
                code.open("for (i64 element = threadIdx.x; element < each; element += THREADS)")
                for n, i in zip(inner, self.decompose(code, "element", [sizes[n] for n in inner], "r")):
                    idx[n] = i
                code.line(step(name, self.term(p, code, idx, results, value, index_of)))
                code.close()
                code.line(f"parts{number}[threadIdx.x] = {name};")
                code.line("__syncthreads();")
                code.open("for (int half = THREADS / 2; half > 0; half /= 2)")
                code.open("if (threadIdx.x < half)")
                code.line(f"{c_type} mine = parts{number}[threadIdx.x];")
                code.line(f"const {c_type} other = parts{number}[threadIdx.x + half];")
                code.line(step("mine", "other"))
                code.line(f"parts{number}[threadIdx.x] = mine;")
                code.close()
                code.line("__syncthreads();")
                code.close()
                code.line(f"{name} = parts{number}[0];")
                code.line("__syncthreads();")
                if p.after:
                    code.line(f"{name} = {p.after(name)};")
                results.append(name)
            code.open("if (threadIdx.x == 0)")
            done(code, [idx[n] for n in outer], results)
            code.close()
            code.close()

        if strips:
            self.kernel("reduce", by_strips, total)
        elif blocks:
            self.kernel("reduce", by_blocks, total, per_block=True)
        else:
            self.kernel("reduce", by_outputs, total)

    # Products of matrices

    def op_mm(self, node):
        self.product(node, self.value(node.args[0], "f"), self.value(node.args[1], "f"))

    op_bmm = op_mm

    def op_addmm(self, node):
        bias, a, b = node.args[:3]
        alpha, beta = node.kwargs.get("alpha", 1), node.kwargs.get("beta", 1)
        self.product(node, self.value(a, "f"), self.value(b, "f"), self.value(bias, "f", self.shape_of(node)), alpha, beta)

    op_baddbmm = op_addmm

    def op_dot(self, node):
        a, b = self.value(node.args[0], "f"), self.value(node.args[1], "f")
        both = Pointwise(a.shape, "f", [a, b], lambda x, y: f"{x} * {y}")
        return self.reduction(node, both, [0], [Pass("sum", lambda c, idx, r, v: v.at(c, idx), "f")], "f")

    def op_mv(self, node):
        a, b = self.value(node.args[0], "f"), self.value(node.args[1], "f")
        self.product(node, a, View(b, [*b.shape, _ONE], lambda idx: idx[:1]), columns=False)

    def product(self, node, a: Value, b: Value, bias=None, alpha=1, beta=1, columns=True):
        a, b = self.operand(a), self.operand(b)
        if bias is not None and (bias.heavy or bias.ops > 3):
            bias = self.expanded(self.realized(bias), bias.shape)
        *batch, rows, depth = a.shape
        width = b.shape[-1]
        store_node = self.finish(node, "f")
        scale = "" if alpha == 1 else f"{self.value(alpha, 'f').text} * "
        share = "" if beta == 1 else f"{self.value(beta, 'f').text} * "

        def store(code, idx, text):
            text = f"{scale}{text}"
            if bias is not None and beta != 0:
                text = f"{text} + {share}{bias.at(code, idx)}"
            store_node(code, idx if columns else idx[:-1], code.let("float", f"(float)({text})"))

        probe = [_variable(f"p{n}") for n in range(len(b.shape))]
        _, position = b.place(probe)
        by_column = sympy.diff(position, probe[-1]) if not position.has(FloorDiv, Mod) else None
        by_depth = sympy.diff(position, probe[-2]) if not position.has(FloorDiv, Mod) else None
        dots = (by_depth == 1 and by_column != 1) or width == 1
        k, m = _variable("k"), None

        def cpu(code):
            code.line(f"const i64 width = {to_cpp(width)}, depth = {to_cpp(depth)}, strips = (width + TILE - 1) / TILE;")
            code.line(f"const i64 total = {_wrap(to_cpp(_product([*batch, rows])))} * strips;")
            code.line("const i64 first = total * thread / threads, last = total * (thread + 1) / threads;")
            if not dots:
                code.line("float part[TILE], sums[TILE];")
            code.open("for (i64 unit = first; unit < last; ++unit)")
            code.line("const i64 row = unit / strips, left = unit % strips * TILE;")
            code.line("const i64 columns = width - left < TILE ? width - left : TILE;")
            outer = self.decompose(code, "row", [*batch, rows])
            column = _variable("left") + _variable("j")
            if dots:
                code.open("for (i64 j = 0; j < columns; ++j)")
                code.line("float part[LANES];")
                code.line("for (int l = 0; l < LANES; ++l) part[l] = 0.0f;")
                code.line("i64 k = 0;")
                code.open("for (; k + LANES <= depth; k += LANES)")
                code.open("for (int l = 0; l < LANES; ++l)")
                kl = _variable("k") + _variable("l")
                code.line(f"part[l] += {a.at(code, [*outer, kl])} * {b.at(code, [*outer[:-1], kl, column])};")
                code.close()
                code.close()
                code.open("for (; k < depth; ++k)")
                code.line(f"part[0] += {a.at(code, [*outer, k])} * {b.at(code, [*outer[:-1], k, column])};")
                code.close()
                code.line("double sum = 0.0;")
                code.line("for (int l = 0; l < LANES; ++l) sum += part[l];")
                store(code, [*outer, column], "(float)sum")
                code.close()
            else:
                code.line("for (i64 j = 0; j < columns; ++j) sums[j] = 0.0f;")
                code.open("for (i64 top = 0; top < depth; top += 256)")
                code.line("const i64 end = top + 256 < depth ? top + 256 : depth;")
                code.line("for (i64 j = 0; j < columns; ++j) part[j] = 0.0f;")
                code.open("for (i64 k = top; k < end; ++k)")
                code.line(f"const float factor = {a.at(code, [*outer, k])};")
                code.open("for (i64 j = 0; j < columns; ++j)")
                code.line(f"part[j] += factor * {b.at(code, [*outer[:-1], k, column])};")
                code.close()
                code.close()
                code.line("for (i64 j = 0; j < columns; ++j) sums[j] += part[j];")
                code.close()
                code.open("for (i64 j = 0; j < columns; ++j)")
                store(code, [*outer, column], "sums[j]")
                code.close()
            code.close()

        def cuda(code):
            self.deal(code, _product([*batch, rows, width]))
            code.line(f"const i64 depth = {to_cpp(depth)};")
            idx = self.decompose(code, "unit", [*batch, rows, width])
            code.line("float sum = 0.0f;")
            code.open("for (i64 top = 0; top < depth; top += 256)")
            code.line("const i64 end = top + 256 < depth ? top + 256 : depth;")
            code.line("float part = 0.0f;")
            code.open("for (i64 k = top; k < end; ++k)")
            code.line(f"part += {a.at(code, [*idx[:-1], k])} * {b.at(code, [*idx[:-2], k, idx[-1]])};")
            code.close()
            code.line("sum += part;")
            code.close()
            store(code, idx, "sum")
            code.close()

        self.kernel("product", cpu if self.target == "cpu" else cuda, _product([*batch, rows, width]))
        del m

    # Convolutions

    def op_convolution(self, node):
        x, w, b, stride, padding, dilation, transposed, _, groups = node.args
        rank = w.meta["val"].dim() - 2
        x, w = self.operand(self.value(x, "f")), self.operand(self.value(w, "f"))
        out = self.shape_of(node)
        batched = len(x.shape) == rank + 2
        bias = self.value(b, "f") if b is not None else None
        if bias is not None and (bias.heavy or bias.ops > 3):
            bias = self.realized(bias)
        stride, padding, dilation = ([self.e(v) for v in (list(values) * rank if len(values) == 1 else values)] for values in (stride, padding, dilation))
        groups = self.e(groups)
        store_node = self.finish(node, "f")

        full = list(out) if batched else [_ONE, *out]
        sizes = x.shape[-rank:]
        kernel = w.shape[2:]
        channels_in = x.shape[-rank - 1]
        each_in = FloorDiv(channels_in, groups) if transposed else w.shape[1]
        each_out = w.shape[1] if transposed else FloorDiv(full[1], groups)
        if groups == 1:
            each_in, each_out = (channels_in if transposed else w.shape[1]), full[1]

        def image(code, n, c, place):
            return x.at(code, [*([n] if batched else []), c, *place])

        def store(code, idx, text):
            if bias is not None:
                text = f"{text} + {bias.at(code, [idx[1]])}"
            store_node(code, idx if batched else idx[1:], code.let("float", text))

        ci = _variable("ci")
        ks = [_variable(f"k{n}") for n in range(rank)]

        def channels(code, co):
            """Variables of the input channel and of the weight's indices."""
            if groups == 1:
                channel = ci
                inner = co
            else:
                group = _variable(code.let("i64", f"{to_cpp(co)} / {_wrap(to_cpp(each_out))}", "g"))
                channel = group * each_in + ci
                inner = co - group * each_out
            return channel, ([channel, inner] if transposed else [co, ci])

        def place(code, axis, o, depth_text):
            """Opens the loop over a kernel's axis; gives the image's index. Skips what lies outside."""
            code.open(f"for (i64 k{axis} = 0; k{axis} < {to_cpp(kernel[axis])}; ++k{axis})")
            k = ks[axis]
            if transposed:
                raw = code.let("i64", to_cpp(o + padding[axis] - k * dilation[axis]), "p")
                code.line(f"if ({raw} < 0" + (f" || {raw} % {_wrap(to_cpp(stride[axis]))} != 0" if stride[axis] != 1 else "") + ") continue;")
                at = code.let("i64", f"{raw} / {_wrap(to_cpp(stride[axis]))}", "p") if stride[axis] != 1 else raw
                code.line(f"if ({at} >= {_wrap(to_cpp(sizes[axis]))}) continue;")
            else:
                at = code.let("i64", to_cpp(o * stride[axis] - padding[axis] + k * dilation[axis]), "p")
                code.line(f"if ({at} < 0 || {at} >= {_wrap(to_cpp(sizes[axis]))}) continue;")
            return _variable(at)

        def cpu(code):
            code.line(f"const i64 width = {to_cpp(full[-1])}, strips = (width + TILE - 1) / TILE;")
            code.line(f"const i64 total = {_wrap(to_cpp(_product(full[:-1])))} * strips;")
            code.line("const i64 first = total * thread / threads, last = total * (thread + 1) / threads;")
            code.line("float part[TILE], sums[TILE];")
            code.open("for (i64 unit = first; unit < last; ++unit)")
            code.line("const i64 row = unit / strips, left = unit % strips * TILE;")
            code.line("const i64 columns = width - left < TILE ? width - left : TILE;")
            outer = self.decompose(code, "row", full[:-1])
            code.line("for (i64 j = 0; j < columns; ++j) sums[j] = part[j] = 0.0f;")
            code.open(f"for (i64 ci = 0; ci < {to_cpp(each_in)}; ++ci)")
            channel, weight_at = channels(code, outer[1])
            places = [place(code, axis, outer[2 + axis], "") for axis in range(rank - 1)]
            a = rank - 1
            code.open(f"for (i64 k{a} = 0; k{a} < {to_cpp(kernel[a])}; ++k{a})")
            factor = w.at(code, [*weight_at, *ks])
            shift = code.let("i64", to_cpp(ks[a] * dilation[a] - padding[a]), "p")
            s = _wrap(to_cpp(stride[a]))
            size = to_cpp(sizes[a])
            if transposed:
                # Output = input * stride + shift.
                low = code.let("i64", f"larger(0, quotient_up(left - {shift}, {s}))", "p")
                high = code.let("i64", f"smaller_of({size}, quotient_up(left + columns - {shift}, {s}))", "p")
                code.open(f"for (i64 i = {low}; i < {high}; ++i)")
                target = f"part[{'i' if s == '1' else f'i * {s}'} + {shift} - left]"
                code.line(f"{target} += {factor} * {image(code, outer[0], channel, [*places, _variable('i')])};")
            else:
                low = code.let("i64", f"larger(left, quotient_up(-{shift}, {s}))", "p")
                high = code.let("i64", f"smaller_of(left + columns, quotient_up({size} - {shift}, {s}))", "p")
                code.open(f"for (i64 i = {low}; i < {high}; ++i)")
                at = _variable("i") * stride[a] + sympy.Symbol(shift, integer=True)
                code.line(f"part[i - left] += {factor} * {image(code, outer[0], channel, [*places, at])};")
            code.close()
            code.close()
            for _ in range(rank - 1):
                code.close()
            code.line("if (ci % 16 == 15)")
            code.line("  for (i64 j = 0; j < columns; ++j) sums[j] += part[j], part[j] = 0.0f;")
            code.close()
            code.open("for (i64 j = 0; j < columns; ++j)")
            store(code, [*outer, _variable("left") + _variable("j")], "(sums[j] + part[j])")
            code.close()
            code.close()

        def cuda(code):
            self.deal(code, _product(full))
            idx = self.decompose(code, "unit", full)
            code.line("float sum = 0.0f;")
            code.open(f"for (i64 ci = 0; ci < {to_cpp(each_in)}; ++ci)")
            channel, weight_at = channels(code, idx[1])
            code.line("float part = 0.0f;")
            places = [place(code, axis, idx[2 + axis], "") for axis in range(rank)]
            code.line(f"part += {image(code, idx[0], channel, places)} * {w.at(code, [*weight_at, *ks])};")
            for _ in range(rank):
                code.close()
            code.line("sum += part;")
            code.close()
            store(code, idx, "sum")
            code.close()

        self.kernel("convolution", cpu if self.target == "cpu" else cuda, _product(full))

    # Pools and scans

    def windows(self, node, x: Value, out, first_last: Callable, mode: int, divisor: Callable):
        """A kernel with one window for each element. first_last(axis, o) gives texts (first, end, step) within the image."""
        rank = len(self.pool_axes)
        if x.heavy or x.ops > 4 or x.loads > 3:
            x = self.realized(x)
        users = {u.args[1]: u for u in node.users if u.target is operator.getitem}
        kinds = ["f", "i"]
        buffers = [None, None]
        store_first = None
        if 0 in users and 1 not in users:
            store_first = self.finish(users[0], "f")
            self.env[node] = (self.env[users[0]], None)
        else:
            for number in users:
                direct = self.output_buffer(users[number])
                buffers[number] = direct if direct is not None and len(users[number].users) == 1 else self.workspace(kinds[number], out)
                if buffers[number] is direct:
                    self.env[users[number]] = Stored(direct, out)
            self.env[node] = tuple(Stored(b, out) if b else None for b in buffers)

        def body(code):
            def one(idx):
                lead, spots = idx[:-rank], idx[-rank:]
                code.line(f"float best = {'-infinity()' if mode == 0 else '0.0f'};")
                if buffers[1]:
                    code.line("i64 where = -1;")
                found = [first_last(code, axis, o) for axis, o in enumerate(spots)]
                bounds = [(begin, end, extra) for begin, end, _, extra in found]
                for axis, (begin, end, step, _) in enumerate(found):
                    code.open(f"for (i64 w{axis} = {begin}; w{axis} < {end}; w{axis} += {step})")
                places = [_variable(f"w{axis}") for axis in range(rank)]
                v = x.at(code, [*lead, *places])
                if mode == 1:
                    code.line(f"best += {v};")
                elif buffers[1]:
                    flat = to_cpp(_flat(places, x.shape[-rank:]))
                    code.line(f"if (where < 0 || {v} > best) best = {v}, where = {flat};")
                else:
                    code.line(f"best = {v} > best ? {v} : best;")
                for _ in range(rank):
                    code.close()
                if mode == 1:
                    code.line(f"best /= (float)({divisor(code, bounds)});")
                if store_first:
                    store_first(code, idx, "best")
                if buffers[0]:
                    code.store(buffers[0], _flat(idx, out), "best")
                if buffers[1]:
                    code.store(buffers[1], _flat(idx, out), "where")

            self.elements(code, out, one)

        self.kernel("pool", body, _product(out))

    def op_pool(self, node):
        value, kernel, stride, padding, dilation, _, count_pad, divisor, mode = node.args
        x = self.value(value, "f")
        rank = len(kernel)
        self.pool_axes = list(range(rank))
        out = self.sizes_of(node.meta["val"][0])
        sizes = x.shape[-rank:]

        def first_last(code, axis, o):
            size = to_cpp(sizes[axis])
            start = code.let("i64", to_cpp(o * stride[axis] - padding[axis]), "s")
            if dilation[axis] == 1:
                begin = code.let("i64", f"larger(0, {start})", "s") if padding[axis] else start
                end = code.let("i64", f"smaller_of({size}, {start} + {kernel[axis]})", "s")
            else:
                d = dilation[axis]
                begin = code.let("i64", f"{start} < 0 ? {start} + quotient_up(-{start}, {d}) * {d} : {start}", "s")
                end = code.let("i64", f"smaller_of({size}, {start} + {(kernel[axis] - 1) * d + 1})", "s")
            padded_end = f"smaller_of({size} + {padding[axis]}, {start} + {kernel[axis]})"
            return begin, end, dilation[axis], f"({padded_end} - {start})"

        def count(code, bounds):
            if divisor:
                return str(divisor)
            if count_pad:
                return " * ".join(extra for _, _, extra in bounds)
            return " * ".join(f"({end} - {begin})" for begin, end, _ in bounds)

        self.windows(node, x, out, first_last, mode, count)

    def op_adaptive_pool(self, node):
        x = self.value(node.args[0], "f")
        rank, mode = len(node.args[1]), node.args[2]
        self.pool_axes = list(range(rank))
        out = self.sizes_of(node.meta["val"][0])

        def first_last(code, axis, o):
            size, target = x.shape[-rank:][axis], out[-rank:][axis]
            begin = code.let("i64", to_cpp(o * size) + f" / {_wrap(to_cpp(target))}" if to_cpp(o * size).isidentifier() else f"({to_cpp(o * size)}) / {_wrap(to_cpp(target))}", "s")
            end = code.let("i64", f"({to_cpp((o + 1) * size)} + {to_cpp(target)} - 1) / {_wrap(to_cpp(target))}", "s")
            return begin, end, 1, ""

        self.windows(node, x, out, first_last, mode, lambda code, b: " * ".join(f"({e} - {s})" for s, e, _ in b))

    def op_scan(self, node):
        value, dim, mode = node.args
        kind = kind_of(node.meta["val"][0].dtype)
        x = self.value(value, kind)
        shape = x.shape
        if not shape:
            raise Unsupported("a scan of one number")
        dim %= len(shape)
        users = {u.args[1]: u for u in node.users if u.target is operator.getitem}
        buffers = [None, None]
        for number in users:
            direct = self.output_buffer(users[number])
            buffers[number] = direct if direct is not None and len(users[number].users) == 1 else self.workspace([kind, "i"][number], shape)
            if buffers[number] is direct:
                self.env[users[number]] = Stored(direct, shape)
        self.env[node] = tuple(Stored(b, shape) if b else None for b in buffers)
        others = [s for n, s in enumerate(shape) if n != dim]
        c = "double" if kind == "f" and mode < 2 else C_TYPES[kind]

        def body(code):
            self.deal(code, _product(others))
            idx = self.decompose(code, "unit", others)
            code.line(f"{c} sum = {'1' if mode == 1 else '0'};")
            if mode >= 2:
                code.line("i64 where = 0;")
            code.open(f"for (i64 s = 0; s < {to_cpp(shape[dim])}; ++s)")
            full = [*idx[:dim], _variable("s"), *idx[dim:]]
            v = x.at(code, full)
            if mode == 0:
                code.line(f"sum += {v};")
            elif mode == 1:
                code.line(f"sum *= {v};")
            else:
                code.line(f"if (s == 0 || {v} {'>=' if mode == 2 else '<='} sum) sum = {v}, where = s;")
            position = _flat(full, shape)
            if buffers[0]:
                code.store(buffers[0], position, f"({C_TYPES[kind]})sum")
            if buffers[1]:
                code.store(buffers[1], position, "where")
            code.close()
            code.close()

        self.kernel("scan", body, _product(others))

    # The whole

    def run(self) -> str:
        graph = self.traced.graph.graph
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        for node, info in zip(placeholders, self.traced.inputs):
            if not node.users:
                continue
            self.env[node] = Stored(self.tensor(info, False), self.shape_of(node))
        self.outputs = [self.tensor(info, True) for info in self.traced.outputs]
        results = next(n for n in graph.nodes if n.op == "output").args[0]
        for number, result in enumerate(results):
            if sum(1 for r in results if r is result) > 1:
                continue
            node = result
            while True:
                if len(node.users) != 1 or node.op != "call_function":
                    node = None if node is not result or node.op != "call_function" else node
                    break
                if operation(node) in SAME_ORDER and isinstance(node.args[0], torch.fx.Node) and len(node.args[0].users) == 1 and node.args[0].op == "call_function" and isinstance(node.args[0].meta["val"], torch.Tensor):
                    node = node.args[0]
                    continue
                break
            if node is not None and len(node.users) == 1 and operation(node) not in VIEWS:
                value, out = node.meta["val"], result.meta["val"]
                if value.dtype == out.dtype:
                    self.direct[node] = number
        for node in graph.nodes:
            if node.op not in ("placeholder", "output") and node not in self.env:
                self.lower(node)
        for number, result in enumerate(results):
            buffer = self.outputs[number]
            value = self.env[result]
            if isinstance(value, Stored) and value.buffer is buffer:
                continue
            self.point(value, buffer)
        if not self.launches:
            raise Unsupported("nothing is computed")
        return self.text()

    def text(self) -> str:
        source = "\n".join(self.functions)
        tunables = []
        if self.target == "cuda":
            tunables.append("  THREADS: {values: [64, 128, 256, 512], default: 256}")
        else:
            if "TILE" in source:
                tunables.append("  TILE: {values: [64, 128, 256, 512, 1024], default: 256}")
            if "LANES" in source:
                tunables.append("  LANES: {values: [4, 8, 16, 32], default: 16}")
        kinds = ", ".join(f"{n} x {k}" for k, n in self.counts.items())
        manifest = ["/*--- cultivar", f"name: {self.task}_naive", f"task: {self.task}", f"target: {self.target}"]
        manifest.append(f'about: "Operation by operation as PyTorch computes it: {kinds}."')
        words = set(re.findall(r"\w+", source))
        works = any(t.dtype == self.traced.dtype for t in [*self.traced.inputs, *self.traced.outputs] if t.dtype[0] in "bf")
        if self.target == "cpu" and works:
            manifest.append('requires: "dtype == f32"')
        if tunables:
            manifest.append("tunables:")
            manifest += tunables
        if self.target == "cuda" and "Element" in words:
            manifest.append("specialize: [dtype]")
        if self.workspaces:
            manifest.append("workspace:")
            manifest += [f'  {name}: {{bytes: "{size}"}}' for name, size in self.workspaces if name in words]
            if manifest[-1] == "workspace:":
                manifest.pop()
        manifest.append("launch:")
        manifest += self.launches
        manifest.append("---*/")
        head = "\n".join(manifest) + "\n"
        if len(head) > MANIFEST_MAX:
            raise Unsupported(f"the manifest would have {len(head)} bytes")
        text = head + "\n" + self.prelude(source) + "\n" + source
        if len(text) > SOURCE_MAX:
            raise Unsupported(f"the source would have {len(text)} bytes")
        return text

    def prelude(self, source: str) -> str:
        """What the kernels use, in front of them."""
        cpu = self.target == "cpu"
        device = "inline" if cpu else "__device__ inline"
        lines = ["#include <cmath>", ""] if cpu else []
        lines += ["namespace {", "", "using i64 = long long;", ""]
        if not cpu:
            for dtype, alias, tail, guard in (
                ("work", "Element", "", True), ("f16", None, "_f16", False), ("bf16", None, "_bf16", False),
            ):
                if guard and "Element" in source:
                    lines.append(_ELEMENT)
                if not guard and (f"widened{tail}(" in source or f"narrowed{tail}(" in source):
                    lines.append(_FIXED[dtype])
        helpers = {
            "infinity": f"{device} float infinity() {{\n  return {'__builtin_inff()' if cpu else '__int_as_float(0x7f800000)'};\n}}\n",
            "not_a_number": f"{device} float not_a_number() {{\n  return {chr(34).join(['__builtin_nanf(', '', ')']) if cpu else '__int_as_float(0x7fffffff)'};\n}}\n",
            "floor_quotient": f"{device} i64 floor_quotient(i64 a, i64 b) {{\n  return a / b - (a % b != 0 && (a < 0) != (b < 0));\n}}\n",
            "quotient_up": f"// For b > 0.\n{device} i64 quotient_up(i64 a, i64 b) {{\n  return a >= 0 ? (a + b - 1) / b : -(-a / b);\n}}\n",
            "larger": f"{device} i64 larger(i64 a, i64 b) {{\n  return a > b ? a : b;\n}}\n",
            "smaller_of": f"{device} i64 smaller_of(i64 a, i64 b) {{\n  return a < b ? a : b;\n}}\n",
            "Best": _BEST.replace("DEVICE", device),
        }
        for word, text in helpers.items():
            if re.search(rf"\b{word}\b", source):
                lines.append(text)
        lines += self.tables
        lines += ["}  // namespace", ""]
        return "\n".join(lines)


class _Done:
    """A value that exists only within a kernel."""


class _Relabelled(Value):
    """A result in its own kernel, in another shape."""

    def __init__(self, base: Value, shape):
        self.base, self.shape, self.kind = base, list(shape), base.kind
        self.ops, self.loads, self.heavy = base.ops, base.loads, base.heavy

    def at(self, code, idx):
        return self.base.at(code, _reshaped(idx, self.shape, self.base.shape))


def _wrap(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def _raw(c_type: str) -> str:
    return c_type


def _square(code, difference: str) -> str:
    d = code.let("double", difference, "d")
    return f"{d} * {d}"


_BEST = """// A value and where it is. Of equal ones, the first counts.
template <class T>
struct Best {
  T value;
  i64 index;
};

template <class T>
DEVICE Best<T> greater(Best<T> a, Best<T> b) {
  if (b.index < 0) return a;
  return a.index < 0 || b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

template <class T>
DEVICE Best<T> smaller(Best<T> a, Best<T> b) {
  if (b.index < 0) return a;
  return a.index < 0 || b.value < a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
"""

_F16 = """__device__ float widened{tail}({type} x) {{
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}}
__device__ {type} narrowed{tail}(float x) {{
  {type} y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}}
"""
_BF16 = """__device__ float widened{tail}({type} x) {{
  return __uint_as_float(static_cast<unsigned>(x) << 16);
}}
__device__ {type} narrowed{tail}(float x) {{
  {type} y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}}
"""
_ELEMENT = (
    "#if defined(DTYPE_F32)\nusing Element = float;\n__device__ float widened(Element x) {\n  return x;\n}\n"
    "__device__ Element narrowed(float x) {\n  return x;\n}\n#elif defined(DTYPE_F16)\nusing Element = unsigned short;\n"
    + _F16.format(tail="", type="Element")
    + "#else\nusing Element = unsigned short;\n"
    + _BF16.format(tail="", type="Element")
    + "#endif\n"
)
_FIXED = {
    "f16": _F16.format(tail="_f16", type="unsigned short"),
    "bf16": _BF16.format(tail="_bf16", type="unsigned short"),
}


# ---------------------------------------------------------------------------------------------------------------------
# Element-wise operations with rules of their own: (lowering, node, shape, kind) -> value


def _argument(node, position, name, default):
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name, default)


def _sum_of(sign):
    def rule(low, node, shape, kind):
        x, y = low.value(node.args[0], kind, shape), low.value(node.args[1], kind, shape)
        alpha = _argument(node, 2, "alpha", 1)
        if kind == "b":
            return Pointwise(shape, kind, [x, y], lambda a, b: f"({a} || {b})")
        if alpha == 1:
            return Pointwise(shape, kind, [x, y], lambda a, b: f"{a} {sign} {b}")
        factor = low.value(alpha, kind).text
        return Pointwise(shape, kind, [x, y], lambda a, b: f"{a} {sign} {factor} * {b}")

    return rule


def _rsub(low, node, shape, kind):
    x, y = low.value(node.args[0], kind, shape), low.value(node.args[1], kind, shape)
    return Pointwise(shape, kind, [x, y], lambda a, b: f"{b} - {a}")


def _where(low, node, shape, kind):
    c, x, y = low.value(node.args[0], "b", shape), low.value(node.args[1], kind, shape), low.value(node.args[2], kind, shape)
    return Pointwise(shape, kind, [c, x, y], lambda a, b, d: f"({a} ? {b} : {d})")


def _masked_fill(low, node, shape, kind):
    x, c, y = low.value(node.args[0], kind, shape), low.value(node.args[1], "b", shape), low.value(node.args[2], kind, shape)
    return Pointwise(shape, kind, [c, x, y], lambda a, b, d: f"({a} ? {d} : {b})")


def _clamp(low, node, shape, kind):
    x = low.value(node.args[0], kind, shape)
    least, most = _argument(node, 1, "min", None), _argument(node, 2, "max", None)
    if least is not None:
        x = Pointwise(shape, kind, [x, low.value(least, kind, shape)], lambda a, b: f"({a} < {b} ? {b} : {a})")
    if most is not None:
        x = Pointwise(shape, kind, [x, low.value(most, kind, shape)], lambda a, b: f"({a} > {b} ? {b} : {a})")
    return x


def _clamp_min(low, node, shape, kind):
    x, b = low.value(node.args[0], kind, shape), low.value(node.args[1], kind, shape)
    return Pointwise(shape, kind, [x, b], lambda a, b: f"({a} < {b} ? {b} : {a})")


def _clamp_max(low, node, shape, kind):
    x, b = low.value(node.args[0], kind, shape), low.value(node.args[1], kind, shape)
    return Pointwise(shape, kind, [x, b], lambda a, b: f"({a} > {b} ? {b} : {a})")


def _gelu(low, node, shape, kind):
    x = low.value(node.args[0], kind, shape)
    if node.kwargs.get("approximate", "none") == "tanh":
        return Pointwise(
            shape, kind, [x], lambda a: f"0.5f * {a} * (1.0f + tanhf(0.7978845608028654f * ({a} + 0.044715f * {a} * {a} * {a})))", 1
        )
    return Pointwise(shape, kind, [x], lambda a: f"0.5f * {a} * (1.0f + erff({a} * 0.7071067811865476f))", 1)


def _elu(low, node, shape, kind):
    x = low.value(node.args[0], kind, shape)
    alpha, scale, inner = (low.value(_argument(node, n, w, 1.0), kind).text for n, w in ((1, "alpha"), (2, "scale"), (3, "input_scale")))
    return Pointwise(
        shape, kind, [x], lambda a: f"({a} > 0.0f ? {a} * {scale} : expm1f({a} * {inner}) * ({alpha} * {scale}))", 1
    )


def _celu(low, node, shape, kind):
    x, alpha = low.value(node.args[0], kind, shape), low.value(_argument(node, 1, "alpha", 1.0), kind).text
    return Pointwise(shape, kind, [x], lambda a: f"({a} > 0.0f ? {a} : {alpha} * expm1f({a} / {alpha}))", 1)


def _selu(low, node, shape, kind):
    x = low.value(node.args[0], kind, shape)
    return Pointwise(
        shape, kind, [x], lambda a: f"({a} > 0.0f ? 1.0507009873554805f * {a} : 1.7580993408473766f * expm1f({a}))", 1
    )


def _leaky(low, node, shape, kind):
    x, slope = low.value(node.args[0], kind, shape), low.value(_argument(node, 1, "negative_slope", 0.01), kind).text
    return Pointwise(shape, kind, [x], lambda a: f"({a} > 0.0f ? {a} : {a} * {slope})")


def _softplus(low, node, shape, kind):
    x = low.value(node.args[0], kind, shape)
    beta, threshold = (low.value(_argument(node, n, w, d), kind).text for n, w, d in ((1, "beta", 1.0), (2, "threshold", 20.0)))
    if float(_argument(node, 1, "beta", 1.0)) == 1.0:
        return Pointwise(shape, kind, [x], lambda a: f"({a} > {threshold} ? {a} : log1pf(expf({a})))", 1)
    return Pointwise(shape, kind, [x], lambda a: f"({a} * {beta} > {threshold} ? {a} : log1pf(expf({a} * {beta})) / {beta})", 1)


def _hardtanh(low, node, shape, kind):
    x = low.value(node.args[0], kind, shape)
    least, most = (low.value(_argument(node, n, w, d), kind).text for n, w, d in ((1, "min_val", -1.0), (2, "max_val", 1.0)))
    return Pointwise(shape, kind, [x], lambda a: f"({a} < {least} ? {least} : ({a} > {most} ? {most} : {a}))")


def _threshold(low, node, shape, kind):
    x = low.value(node.args[0], kind, shape)
    limit, other = low.value(node.args[1], kind).text, low.value(node.args[2], kind).text
    return Pointwise(shape, kind, [x], lambda a: f"({a} > {limit} ? {a} : {other})")


def _pow(low, node, shape, kind):
    base, power = node.args[:2]
    if isinstance(power, (int, float)) and not isinstance(power, bool):
        x = low.value(base, kind, shape)
        if power == 0.5 and kind == "f":
            return Pointwise(shape, kind, [x], lambda a: f"sqrtf({a})")
        if power == -0.5 and kind == "f":
            return Pointwise(shape, kind, [x], lambda a: f"1.0f / sqrtf({a})")
        if float(power).is_integer() and 1 <= power <= 8:
            return Pointwise(shape, kind, [x], lambda a: " * ".join([a] * int(power)) if power > 1 else a)
        if float(power).is_integer() and -8 <= power <= -1 and kind == "f":
            return Pointwise(shape, kind, [x], lambda a: f"1.0f / ({' * '.join([a] * int(-power))})")
        if power == 0:
            return Constant(literal(1, kind), kind, shape)
    if kind != "f":
        raise Unsupported("pow of whole numbers with an exponent that varies")
    x, y = low.value(base, kind, shape), low.value(power, kind, shape)
    return Pointwise(shape, kind, [x, y], lambda a, b: f"powf({a}, {b})", 1)


def _to_copy(low, node, shape, kind):
    dtype = node.meta["val"].dtype
    source = node.args[0].meta["val"].dtype
    value = low.value(node.args[0])
    if dtype.is_floating_point and source.is_floating_point:
        low_precision = (torch.float16, torch.bfloat16)
        if dtype in low_precision and dtype_name(dtype) != low.traced.dtype:
            raise Unsupported(f"_to_copy: a rounding to {dtype} in a function of {low.traced.dtype}")
        return value
    if isinstance(value, Constant):
        return low.converted(value, kind)
    text = value.kind
    if kind == "i" and dtype in (torch.int32, torch.int16, torch.int8, torch.uint8):
        c = {torch.int32: "int", torch.int16: "short", torch.int8: "signed char", torch.uint8: "unsigned char"}[dtype]
        return Pointwise(shape, kind, [value], lambda a: f"(i64)({c})({cast(a, text, 'i')})")
    return Pointwise(shape, kind, [value], lambda a: cast(a, text, kind), ops=0)


def _logical_not(low, node, shape, kind):
    return Pointwise(shape, "b", [low.value(node.args[0], "b", shape)], lambda a: f"!{a}")


def _bitwise_not(low, node, shape, kind):
    if kind == "b":
        return _logical_not(low, node, shape, kind)
    return Pointwise(shape, kind, [low.value(node.args[0], kind, shape)], lambda a: f"~{a}")


def _logical(sign):
    def rule(low, node, shape, kind):
        x, y = low.value(node.args[0], "b", shape), low.value(node.args[1], "b", shape)
        return Pointwise(shape, "b", [x, y], lambda a, b: f"({a} {sign} {b})")

    return rule


def _test(pattern):
    def rule(low, node, shape, kind):
        x = low.value(node.args[0], None, shape)
        if x.kind != "f":
            return Constant("false", "b", shape)
        return Pointwise(shape, "b", [x], lambda a: pattern.format(x=a))

    return rule


def _lerp(low, node, shape, kind):
    x, y, w = (low.value(a, kind, shape) for a in node.args[:3])
    return Pointwise(shape, kind, [x, y, w], lambda a, b, c: f"({c} < 0.5f ? {a} + {c} * ({b} - {a}) : {b} - ({b} - {a}) * (1.0f - {c}))")


def _addc(sign):
    def rule(low, node, shape, kind):
        x, y, z = (low.value(a, kind, shape) for a in node.args[:3])
        factor = low.value(node.kwargs.get("value", 1), kind).text
        return Pointwise(shape, kind, [x, y, z], lambda a, b, c: f"{a} + {factor} * ({b} {sign} {c})")

    return rule


SPECIAL = {
    "add": _sum_of("+"), "sub": _sum_of("-"), "rsub": _rsub, "where": _where, "masked_fill": _masked_fill, "clamp": _clamp,
    "clamp_min": _clamp_min, "clamp_max": _clamp_max, "gelu": _gelu, "elu": _elu, "celu": _celu, "selu": _selu,
    "leaky_relu": _leaky, "softplus": _softplus, "hardtanh": _hardtanh, "threshold": _threshold, "pow": _pow,
    "_to_copy": _to_copy, "convert_element_type": _to_copy, "logical_not": _logical_not, "bitwise_not": _bitwise_not,
    "logical_and": _logical("&&"), "logical_or": _logical("||"), "logical_xor": _logical("!="),
    "isnan": _test("({x} != {x})"), "isinf": _test("(fabsf({x}) == infinity())"), "lerp": _lerp, "addcmul": _addc("*"),
    "addcdiv": _addc("/"),
}


def derive(traced: Traced, task_name: str) -> Seeds:
    """Seeds for both targets, or the reasons why there are none."""
    texts, reasons, operations = {}, [], []
    for target in ("cpu", "cuda"):
        _NAMED.clear()
        try:
            texts[target] = Lowering(traced, task_name, target).run()
        except Unsupported as error:
            reasons.append(f"{target}: {error}")
            operations.append(str(error).split(":")[0])
    return Seeds(texts.get("cpu"), texts.get("cuda"), "; ".join(reasons), sorted(set(operations)))
