# SPDX-License-Identifier: Apache-2.0
"""Operations that reduce: sums, products, extremes and what is made of them."""

from __future__ import annotations

from .seed_values import (
    C_TYPES, Hole, Pass, Stored, Unsupported, Value, View, _ONE, _ZERO, _flat, _product, _raw, _square, _unflatten,
    _variable, _wrap, kind_of, literal,
)
from .trace import to_cpp


class Reductions:
    """The part of a lowering that concerns reductions."""

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
            buffers = [each and each[0] for each in self.results(node, [k for k, _ in outputs])]

            def done(code, idx, results):
                position = _flat(idx, [shape[n] for n in kept])
                for b, (k, text) in zip(buffers, outputs):
                    if b:
                        code.store(b, position, f"({C_TYPES[k]})({text(results)})")

        # Neighbouring axes that are both kept or both reduced become one.
        labels = [n in dims for n in range(len(shape))]
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
