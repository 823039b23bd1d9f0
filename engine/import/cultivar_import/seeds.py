# SPDX-License-Identifier: Apache-2.0
"""Derives naive seed kernels from a traced PyTorch function.

derive(traced, task_name) gives the text of a cpu and of a cuda variant (evaluators/README.md has the format). Operations that
combine elements (sums, products of matrices, convolutions, pools, scans) become a kernel each; element-wise operations and
changes of shape become index arithmetic in the kernel that uses them, or in the one before it. Every size is taken that the
relations of the trace allow.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from typing import Callable

import sympy
import torch

from .seed_orders import AHEAD, Orders
from .seed_products import Products
from .seed_reductions import Reductions
from .seed_rules import SPECIAL, _ELEMENT, _FIXED
from .seed_values import (
    BINARY, BINARY_BOOL, BINARY_INT, Buffer, COMPARE, C_TYPES, Code, Constant, Expanded, Hole, Pointwise, SAME_ORDER,
    Stored, Table, UNARY, UNARY_INT, Unsupported, VIEWS, Value, View, _BEST, _Done, _NAMED, _Relabelled, _ZERO, _flat,
    _product, _reshaped, _same, _variable, _wrap, cast, kind_of, literal, operation, to_task_plain,
)
from .seed_views import Views
from .trace import Traced, is_kernel_word, kernel_name, to_cpp


LAUNCHES_MAX = 64
SOURCE_MAX = 1 << 20
MANIFEST_MAX = 64 << 10


@dataclasses.dataclass
class Seeds:
    cpu: str | None
    cuda: str | None
    why: str  # why one of them is missing, or ""
    operations: list[str] = dataclasses.field(default_factory=list)  # unsupported ones


class Lowering(Views, Reductions, Orders, Products):
    """Makes one variant, for one target."""

    def __init__(self, traced: Traced, task: str, target: str, copied=frozenset()):
        self.copied = copied  # inputs of which an output may have the memory
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
        if is_kernel_word(name) and name not in ("x", "y", "w") or name in self.dims:
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
            words |= {kernel_name(symbol.name) for symbol in meaning.free_symbols}
        dims = [d.name for d in self.traced.dimensions if kernel_name(d.name) in words and d.name in self.dims]
        parameters, args = [], []
        for buffer, written in code.buffers.items():
            const = "" if written else "const "
            parameters.append(f"{const}{self.c_type(buffer)}* __restrict__ {buffer.label}")
            args.append(buffer.name)
        for d in dims:
            parameters.append(f"int {d}_")
            args.append(d)
        head = f"  const i64 {', '.join(f'{kernel_name(d)} = {d}_' for d in dims)};\n" if dims else ""
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
                f'  - kernel: {name}\n    grid: ["min({blocks}, 64 * num_sms)", 1, 1]\n    block: [THREADS, 1, 1]\n'
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

    # The whole

    def run(self) -> str:
        graph = self.traced.graph.graph
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        for node, info in zip(placeholders, self.traced.inputs):
            if not node.users:
                continue
            value = Stored(self.tensor(info, False), self.shape_of(node))
            if info.name in self.copied:  # read before any output is written
                value = self.realized(value, self.workspace(value.kind, value.shape))
            self.env[node] = value
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
            "ahead": AHEAD.replace("DEVICE", device),
        }
        for word, text in helpers.items():
            if re.search(rf"\b{word}\b", source):
                lines.append(text)
        lines += self.tables
        lines += ["}  // namespace", ""]
        return "\n".join(lines)


def derive(traced: Traced, task_name: str, copied=frozenset()) -> Seeds:
    """Seeds for both targets, or the reasons why there are none. `copied`: inputs of which an output may have the memory."""
    texts, reasons, operations = {}, [], []
    for target in ("cpu", "cuda"):
        _NAMED.clear()
        try:
            texts[target] = Lowering(traced, task_name, target, copied).run()
        except Unsupported as error:
            reasons.append(f"{target}: {error}")
            operations.append(str(error).split(":")[0])
    return Seeds(texts.get("cpu"), texts.get("cuda"), "; ".join(reasons), sorted(set(operations)))
