# SPDX-License-Identifier: Apache-2.0
"""Products of matrices, convolutions, pools and scans."""

from __future__ import annotations

import operator
from typing import Callable

import sympy
from torch.utils._sympy.functions import FloorDiv, Mod

from .seed_values import (
    C_TYPES, Pass, Pointwise, Stored, Unsupported, Value, View, _ONE, _flat, _product, _variable, _wrap, kind_of,
)
from .trace import to_cpp


class Products:
    """The part of a lowering that concerns products, convolutions, pools and scans."""

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
