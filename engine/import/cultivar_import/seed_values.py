# SPDX-License-Identifier: Apache-2.0
"""What operations compute, as values that are asked for one element: stored, constant, a view of another, or an expression."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Callable

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Mod

from .trace import to_cpp, to_task


class Unsupported(Exception):
    """A seed cannot be derived; the message names the operation and the reason."""


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
