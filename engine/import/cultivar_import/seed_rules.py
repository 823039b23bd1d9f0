# SPDX-License-Identifier: Apache-2.0
"""Rules for operations element by element: how each is written."""

from __future__ import annotations

import torch

from .seed_values import Constant, Pointwise, Unsupported, cast, literal
from .trace import dtype_name


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
