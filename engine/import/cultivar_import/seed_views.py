# SPDX-License-Identifier: Apache-2.0
"""Operations that change shapes and choose elements, as index arithmetic."""

from __future__ import annotations

import sympy
from torch.utils._sympy.functions import FloorDiv, Mod

from .seed_values import (
    C_TYPES, Choice, Code, Constant, Index, Lookup, Pointwise, SAME_ORDER, Stored, Unsupported, VIEWS, Value, View, _ONE,
    _ZERO, _plain, _product, _reshaped, _same, _variable, kind_of, literal, operation,
)
from .trace import to_cpp


class Views:
    """The part of a lowering that concerns shapes and indices."""

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
