# SPDX-License-Identifier: Apache-2.0
"""A seed in Triton from what torch.compile generated: its kernels, with the manifest that launches them.

`seeds_of` returns texts of variants (evaluators/languages/triton), or raises Inexpressible. Bodies stay as generated but for what
a variant may not have: PyTorch's own functions are replaced by those in FUNCTIONS, and loads of the workload's dtype are widened
so that one text serves every dtype. Block sizes, warps and stages become tunables with the values that torch.compile would try.
"""

import ast
import copy
import re

import sympy

from .inductor import Inexpressible, generated
from .inductor_program import BYTES, Memory, Program, is_contiguous
from .probe import evaluate
from .trace import to_task

SOURCE_MAX = 1 << 20
MANIFEST_MAX = 64 << 10
ALIGNMENTS_MAX = 4  # each doubles what is compiled

# What stands for functions of torch._inductor.runtime.triton_helpers: NaN is propagated, and of equal values the first is chosen.
FUNCTIONS = {
    "maximum": "def maximum(a, b):\n    return tl.where((a > b) | (a != a), a, b)",
    "minimum": "def minimum(a, b):\n    return tl.where((a < b) | (a != a), a, b)",
    "max2": "def max2(a, dim):\n    return tl.reduce(a, dim, maximum)",
    "min2": "def min2(a, dim):\n    return tl.reduce(a, dim, minimum)",
    "product": "def product(a, b):\n    return a * b",
    "prod": "def prod(a, dim):\n    return tl.reduce(a, dim, product)",
    "either": "def either(a, b):\n    return a | b",
    "any": "def any(a, dim):\n    return tl.reduce(a, dim, either)",
    "select_one": "def select_one(a, mask, dim, keep_dims: tl.constexpr = False):\n"
                  "    return tl.sum(tl.where(mask, a, 0), dim, keep_dims=keep_dims)",
    "promote_to_tensor": "def promote_to_tensor(a):\n    return a + tl.zeros([1], tl.int1)",
    "div_floor_integer": "def div_floor_integer(a, b):\n    quotient = a // b\n"
                         "    return tl.where(((a < 0) != (b < 0)) & (a % b != 0), quotient - 1, quotient)",
    "remainder_integer": "def remainder_integer(a, b):\n    rest = a % b\n"
                         "    return tl.where((rest != 0) & ((a < 0) != (b < 0)), rest + b, rest)",
    "maximum_with_index":
        "def maximum_with_index(a, i, b, j):\n    first = (a > b) | ((a != a) & (b == b))\n"
        "    first = first | (((a == b) | ((a != a) & (b != b))) & (i < j))\n    return tl.where(first, a, b), tl.where(first, i, j)",
    "minimum_with_index":
        "def minimum_with_index(a, i, b, j):\n    first = (a < b) | ((a != a) & (b == b))\n"
        "    first = first | (((a == b) | ((a != a) & (b != b))) & (i < j))\n    return tl.where(first, a, b), tl.where(first, i, j)",
    "max_with_index": "def max_with_index(a, i, dim):\n    return tl.reduce((a, i), dim, maximum_with_index)",
    "min_with_index": "def min_with_index(a, i, dim):\n    return tl.reduce((a, i), dim, minimum_with_index)",
    "welford_reduce":
        "def welford_reduce(value, mean, m2, weight, first):\n    delta = value - mean\n    weight = weight + 1\n"
        "    mean = mean + delta / weight\n    return mean, m2 + delta * (value - mean), weight",
    "welford_combine":
        "def welford_combine(mean, m2, weight, mean_2, m2_2, weight_2):\n    delta = mean_2 - mean\n    whole = weight + weight_2\n"
        "    share = tl.where(whole == 0.0, 0.0, weight_2 / whole)\n"
        "    return mean + delta * share, m2 + m2_2 + delta * delta * weight * share, whole",
    "welford": "def welford(mean, m2, weight, dim):\n    return tl.reduce((mean, m2, weight), dim, welford_combine)",
    "online_softmax_combine":
        "def online_softmax_combine(greatest, sum, value, fast: tl.constexpr):\n    new = maximum(greatest, value)\n"
        "    empty = new == float('-inf')\n"
        "    return new, sum * tl.where(empty, 1.0, tl.exp(greatest - new)) + tl.where(empty, 1.0, tl.exp(value - new))",
    "online_softmax_reduce":
        "def online_softmax_reduce(greatest, sum, dim, fast: tl.constexpr):\n    whole = max2(greatest, dim)\n"
        "    of_each = tl.expand_dims(whole, dim)\n    delta = tl.where(of_each == float('-inf'), 0, greatest - of_each)\n"
        "    return whole, tl.sum(sum * tl.exp(delta), dim)",
}
REFUSED = ("tl.atomic_", "triton_helpers.x_grid_barrier", "tl.inline_asm")


class _Body(ast.NodeTransformer):
    """One kernel's function, for one launch of it."""

    def __init__(self, name, loads, renamed):
        self.name, self.loads, self.renamed = name, loads, renamed  # loads: {pointer: the type to which what it has is converted}
        self.functions, self.libdevice = set(), False

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "tl.device_assert":
            return None
        return self.generic_visit(node)

    def visit_Name(self, node):
        if node.id in self.renamed:
            return ast.copy_location(ast.Name(self.renamed[node.id], node.ctx), node)
        self.libdevice = self.libdevice or node.id == "libdevice"
        return node

    def visit_arg(self, node):
        node.arg = self.renamed.get(node.arg, node.arg)
        return node

    def visit_Attribute(self, node):
        module = node.value.id if isinstance(node.value, ast.Name) else None
        name = f"{module}.{node.attr}"
        if name.startswith(REFUSED):
            raise Inexpressible(f"the kernel {self.name} uses {name}")
        if module == "triton_helpers":
            if node.attr not in FUNCTIONS:
                raise Inexpressible(f"the kernel {self.name} uses {name}, in place of which there is nothing yet")
            self.functions.add(node.attr)
            return ast.copy_location(ast.Name(node.attr, ast.Load()), node)
        if module == "tl_math":
            return ast.copy_location(ast.parse(f"tl.math.{node.attr}", mode="eval").body, node)
        return self.generic_visit(node)

    def visit_Call(self, node):
        is_load = ast.unparse(node.func) == "tl.load"
        pointer = next((n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name) and n.id in self.loads), None) if is_load else None
        node = self.generic_visit(node)
        if pointer is None:
            return node
        converted = ast.parse(f"VALUE.to({self.loads[pointer]})", mode="eval").body
        converted.func.value = node
        return ast.copy_location(converted, node)


def without_unused(function):
    """Leaves out assignments to names that nothing reads."""
    while True:
        read = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}

        class Used(ast.NodeTransformer):
            removed = False

            def drop(self, node, target):
                if isinstance(target, ast.Name) and target.id not in read:
                    self.removed = True
                    return None
                return node

            def visit_Assign(self, node):
                return self.drop(node, node.targets[0])

            def visit_AnnAssign(self, node):
                return self.drop(node, node.target)

        used = Used()
        used.visit(function)
        if not used.removed:
            return


def unknown_names(function):
    """What a function reads and nothing defines."""
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    known = {a.arg for a in function.args.args} | {n.id for n in names if isinstance(n.ctx, ast.Store)}
    return {n.id for n in names} - known - {"triton", "tl", "libdevice", "float", "int", "range", "min", "max"}


class Seed:
    def __init__(self, task, name, told, inputs, outputs, example, own, taken):
        """outputs: [(name, dtype of torch or None for the workload's)]; own: the workload's dtype in the example, of torch;
        taken: names that the task uses."""
        self.task, self.name, self.told, self.outputs, self.own, self.taken = task, name, told, outputs, own, set(taken)
        self.example = example
        self.program = Program(told["code"], told["symbols"], inputs)
        self.requires = list(told["conditions"])
        self.tunables, self.constraints, self.lets, self.aligned, self.launches = [], [], [], [], []
        self.workspaces, self.functions, self.libdevice, self.kernels = [], set(), False, []
        self.names = {}  # memory: name in the manifest

    def text(self):
        self._name_memory()
        for number, launch in enumerate(self.program.launches):
            self._launch(number, launch)
        if not self.launches:
            raise Inexpressible("it computes nothing")
        head = self._manifest()
        if len(head) > MANIFEST_MAX:
            raise Inexpressible(f"the manifest would have {len(head)} bytes")
        parts = [f'"""--- cultivar\n{head}---"""\n{self._origin()}import triton\nimport triton.language as tl\n']
        if self.libdevice:
            parts[0] += "from triton.language.extra import libdevice\n"
        for name in self._needed_functions():
            parts.append(f"@triton.jit\n{FUNCTIONS[name]}\n")
        whole = "\n\n".join(parts + self.kernels)
        if len(whole) > SOURCE_MAX:
            raise Inexpressible(f"the source would have {len(whole)} bytes")
        return whole

    def row_dimensions(self):
        """Dimensions on which the lengths of loops over rows depend."""
        return sorted({s.name for launch in self.program.launches if launch.kernel.reduces and not launch.kernel.persistent
                       for name, value in launch.arguments.items() if name.endswith("numel") and name[0] == "r" for s in value.free_symbols})

    def _fresh(self, wish):
        name, count = wish, 1
        while name in self.taken:
            count += 1
            name = f"{wish}_{count}"
        self.taken.add(name)
        return name

    # Memory

    def _name_memory(self):
        results = self.program.results
        if len(results) != len(self.outputs):
            raise Inexpressible(f"it returns {len(results)} tensors for {len(self.outputs)} outputs")
        for tensor, (name, dtype) in zip(results, self.outputs):
            if tensor.memory.is_input:
                raise Inexpressible(f"it returns the input {tensor.memory.name} as {name}")
            if tensor.memory in self.names:
                raise Inexpressible(f"{self.names[tensor.memory]} and {name} share memory")
            if not is_contiguous(tensor) or sympy.expand(tensor.memory.elements - sympy.prod(tensor.shape)) != 0:
                raise Inexpressible(f"the output {name} is part of another tensor, or has another order")
            if tensor.memory.dtype != (dtype or self.own):
                raise Inexpressible(f"the output {name} has the dtype {tensor.memory.dtype}")
            self.names[tensor.memory] = name
        written = {m for launch in self.program.launches for p, m in launch.arguments.items() if "out_ptr" in p}
        missing = [n for m, n in self.names.items() if m not in written]
        if missing:
            raise Inexpressible(f"no kernel writes {missing[0]}")

    def _of_workload(self, memory):
        """Whether the elements have the workload's dtype, rather than one of their own."""
        if memory.is_input or self.names.get(memory) in [name for name, _ in self.outputs]:
            return memory.dtype in ("float32", "float16", "bfloat16")
        return memory.dtype == self.own and self.own != "float32"

    def _memory(self, memory):
        if memory.is_input:
            return memory.name
        if memory not in self.names:
            self.names[memory] = self._fresh(f"space_{len(self.workspaces)}")
            each = "element_bytes" if self._of_workload(memory) else str(BYTES[memory.dtype])
            elements = to_task(memory.elements)
            self.workspaces.append((self.names[memory], f"{each} * ({elements})" if "+" in elements or "-" in elements else
                                    f"{each} * {elements}"))
        return self.names[memory]

    # Launches

    def _number(self, expression):
        """An expression as an argument: a dimension, a number, or the name of a let."""
        text = to_task(expression)
        if re.fullmatch(r"\w+", text):
            return text
        for name, known in self.lets:
            if known == text:
                return name
        name = self._fresh("size" if not self.lets else f"size_{len(self.lets)}")
        self.lets.append((name, text))
        return name

    def _launch(self, number, launch):
        kernel, suffix = launch.kernel, f"_{number}" if len(self.program.launches) > 1 else ""
        function = copy.deepcopy(kernel.function)
        function.decorator_list = [ast.parse("triton.jit", mode="eval").body]
        if sum(other.kernel is kernel for other in self.program.launches) > 1:
            function.name += suffix
        renamed = {a.arg: self._fresh(a.arg + suffix) for a in function.args.args if a.annotation is not None}
        helpers = {h.name: self._fresh(h.name) for h in kernel.helpers}
        constants = {n.target.id: n.value.value for n in function.body if isinstance(n, ast.AnnAssign) and isinstance(n.value, ast.Constant)}
        arguments, loads = self._take_arguments(launch, function)
        body = _Body(kernel.name, loads, {**renamed, **helpers})
        for helper in copy.deepcopy(kernel.helpers):
            helper.name = helpers[helper.name]
            self.kernels.append(ast.unparse(body.visit(helper)) + "\n")
        function = body.visit(function)
        without_unused(function)
        unknown = unknown_names(function) - {*FUNCTIONS, *helpers.values()}
        if unknown:
            raise Inexpressible(f"the kernel {kernel.name} uses {min(unknown)}")
        self.functions |= body.functions
        self.libdevice = self.libdevice or body.libdevice
        self.kernels.append(ast.unparse(ast.fix_missing_locations(function)) + "\n")
        warps, stages = self._tune(kernel, renamed, suffix)
        self.launches.append([f"  - kernel: {function.name}", f"    grid: [{', '.join(self._grid(launch, renamed, constants))}]",
                              f"    num_warps: {warps}", f"    num_stages: {stages}", f"    args: [{', '.join(arguments)}]"])

    def _take_arguments(self, launch, function):
        """Gives a function the parameters that a variant's has: (its arguments in the manifest, conversions of what it loads)."""
        kernel, parameters, arguments, loads, first = launch.kernel, [], [], {}, []
        for parameter in function.args.args:
            name = parameter.arg
            given = launch.arguments.get(name)
            if parameter.annotation is not None:
                parameters.append(parameter)
            elif isinstance(given, Memory):
                arguments.append(self._memory(given))
                parameters.append(parameter)
                self._pointer(parameter, given, kernel.signature[name], loads, first)
            elif given.is_Integer:
                first += ast.parse(f"{name} = {given}").body
            else:
                kind, value = kernel.signature[name], self._number(given)
                arguments.append(value if kind == "i32" else f'{{value: "{value}", type: {kind}}}')
                parameters.append(parameter)
                if not (kernel.reduces and name == "xnumel"):
                    self._align(value)
        if any("DTYPE" in ast.unparse(f) for f in first):
            parameters.append(ast.arg("DTYPE", ast.parse("tl.constexpr", mode="eval").body))
        assigned = {n.id for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        function.args.args = parameters
        function.body = [f for f in first if f.targets[0].id not in assigned] + function.body
        return arguments, loads

    def _pointer(self, parameter, memory, kind, loads, first):
        """The type that a workspace's parameter is declared with, and what is loaded through it is converted to."""
        name, of_workload = parameter.arg, self._of_workload(memory)
        if of_workload and self.own == "float32":  # in other dtypes torch.compile widens what it loads by itself
            loads[name] = "tl.float32"
        elif kind == "*i1":
            loads[name] = "tl.int1"
        if self._memory(memory) in [w for w, _ in self.workspaces]:
            parameter.annotation = ast.Constant("*u8" if of_workload or kind == "*i1" else kind)
            if of_workload:
                first += ast.parse(f"{name} = {name}.to(tl.pointer_type(DTYPE))").body

    def _align(self, value):
        if value in [a for a, _ in self.aligned] or len(self.aligned) == ALIGNMENTS_MAX or value.isdigit():
            return
        self.aligned.append((value, self._fresh(f"aligned_{value}")))

    def _grid(self, launch, renamed, constants):
        def blocks(axis):
            numel = launch.arguments.get(f"{axis}numel")
            if numel is None:
                raise Inexpressible(f"the grid of the kernel {launch.kernel.name} is not known")
            block = f"{axis.upper()}BLOCK"
            size = renamed.get(block, str(constants.get(block, 1)))
            return to_task(numel) if size == "1" else f"ceil_div({to_task(numel)}, {size})"

        kind = launch.kernel.grid
        if kind == "Grid2DWithYZOverflow":
            raw = blocks("y")
            return [f'"{blocks("x")}"', f'"ceil_div({raw}, ceil_div({raw}, 65535))"', f'"ceil_div({raw}, 65535)"']
        axes = "xyz"[:int(kind[4])]
        for axis in axes[1:]:
            self.requires.append(f"{to_task(launch.arguments[f'{axis}numel'])} <= 65535")
        return [f'"{blocks(axis)}"' for axis in axes] + ["1"] * (3 - len(axes))

    def _tune(self, kernel, renamed, suffix):
        tried = self.told["configurations"].get(kernel.name)
        if not tried:
            raise Inexpressible(f"the block sizes of the kernel {kernel.name} are not known")
        for block, name in renamed.items():
            if any(block not in c for c in tried):
                raise Inexpressible(f"torch.compile has no value for {block} of the kernel {kernel.name}")
            self.tunables.append((name, sorted({c[block] for c in tried}), tried[0][block]))
        if len(renamed) > 1:
            product = [sympy.prod([c[b] for b in renamed]) for c in tried]
            self.constraints.append(f"{' * '.join(renamed.values())} <= {max(product)}")
        chosen = []
        for key, wish in (("num_warps", "WARPS"), ("num_stages", "STAGES")):
            values = sorted({c[key] for c in tried})
            if len(values) == 1:
                chosen.append(values[0])
                continue
            chosen.append(self._fresh(wish + suffix))
            self.tunables.append((chosen[-1], values, tried[0][key]))
        return chosen

    # The text

    def _needed_functions(self):
        needed, todo = set(), list(self.functions)
        while todo:
            name = todo.pop()
            if name not in needed:
                needed.add(name)
                todo += [f for f in FUNCTIONS if re.search(rf"\b{f}\b", FUNCTIONS[name]) and f != name]
        return [f for f in FUNCTIONS if f in needed]  # in an order in which each is defined before it is used

    def _made_by(self):
        return f"torch.compile (PyTorch {self.told['torch']})"

    def _origin(self):
        lines = [f"{self._made_by()} generated these kernels under the example {self.example},",
                 f"for {self.told['architecture']} with {self.told['multiprocessors']} multiprocessors and sizes as variables: they are "
                 "nobody's hand work, and no search has evolved them.",
                 "The manifest is Cultivar's; the functions above the kernels stand for PyTorch's own."
                 if self.functions else "The manifest is Cultivar's."]
        return "".join(f"# {line}\n" for line in lines)

    def _manifest(self):
        lines = [f"name: {self.name}", f"task: {self.task}", "target: cuda", "language: triton",
                 f'about: "Generated by {self._made_by()} under the example {self.example}: no hand work, and not evolved."']
        if self.requires:
            lines.append(f'requires: "{" && ".join(dict.fromkeys(self.requires))}"')
        if self.tunables:
            lines.append("tunables:")
            lines += [f"  {name}: {{values: [{', '.join(map(str, values))}], default: {default}}}" for name, values, default in self.tunables]
        if self.constraints:
            lines.append(f"constraints: [{', '.join(chr(34) + c + chr(34) for c in self.constraints)}]")
        lets = self.lets + [(name, f"{value} % 16 == 0") for value, name in self.aligned]
        if lets:
            lines.append("let:")
            lines += [f'  {name}: "{text}"' for name, text in lets]
        lines.append(f"specialize: [{', '.join(['dtype'] + [name for _, name in self.aligned])}]")
        if self.workspaces:
            lines.append("workspace:")
            lines += [f'  {name}: {{bytes: "{size}"}}' for name, size in self.workspaces]
        lines.append("launch:")
        for launch in self.launches:
            lines += launch
        return "\n".join(lines) + "\n"


PERSISTENT_MAX = 1024  # elements of a row that torch.compile keeps in registers


def holds(condition, sizes):
    return bool(evaluate(condition.replace("&&", " and ").replace("||", " or ").replace("^", "**"), sizes))


def seeds_of(task, folder, inputs, outputs, sizes, own, timed, taken, architecture):
    """{file: text}: a seed for all sizes, and where rows are so short that torch.compile would keep them in registers if it knew,
    another for these. sizes: of the example; timed: of each workload that a search times; the rest as for Seed."""
    example = ", ".join(f"{name} = {value}" for name, value in sizes.items()) + f" in {own}"

    def made(name, most=None):
        told = generated(folder, inputs, sizes, architecture, most)
        return Seed(task, f"{task}_{name}", {**told, "architecture": architecture}, inputs, outputs, example, own, taken)

    whole = made("inductor")
    texts = {"triton_inductor.py": whole.text()}
    narrow = next((c for c in whole.requires if not all(holds(c, each) for each in timed)), None)
    if narrow:
        raise Inexpressible(f"its sizes are fixed: it is right only where {narrow}")
    most = {name: 1 << (max(each[name] for each in timed) - 1).bit_length() for name in whole.row_dimensions()}
    if most and max(most.values()) <= PERSISTENT_MAX:
        try:
            short = made("inductor_rows", most)
            text = short.text()
            if not short.row_dimensions():
                texts["triton_inductor_rows.py"] = text
        except Inexpressible:
            pass  # the other remains
    return texts
