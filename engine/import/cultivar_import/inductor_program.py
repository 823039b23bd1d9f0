# SPDX-License-Identifier: Apache-2.0
"""Reads the module that torch.compile generates: which kernels there are, and what its `call` does with them, step by step.

Nothing of it is run. A `Program` has kernels (their syntax), launches (kernel, arguments, sizes) and buffers; what is neither
a launch of a Triton kernel nor the allocation of a buffer is Inexpressible.
"""

import ast
import dataclasses

import sympy
from torch.utils._sympy import functions as symbolic

from .inductor import Inexpressible

BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
GRIDS = ("Grid1D", "Grid2D", "Grid3D", "Grid2DWithYZOverflow")
SILENT = ("args.clear", "assert_size_stride", "assert_alignment", "torch.cuda.set_device", "torch.cuda._DeviceGuard")


@dataclasses.dataclass
class Kernel:
    name: str
    function: ast.FunctionDef
    helpers: list  # functions beside it that it calls
    signature: dict  # parameter: "*fp32", "i32", "constexpr" ...
    grid: str
    reduces: bool
    persistent: bool  # a row at once, without a loop


@dataclasses.dataclass(eq=False)
class Memory:
    """An input, an output or a workspace: what several names of `call` may stand for, one after the other."""
    name: str
    dtype: str
    elements: sympy.Expr
    is_input: bool = False


@dataclasses.dataclass
class Tensor:
    memory: Memory
    shape: list
    strides: list
    offset: sympy.Expr


@dataclasses.dataclass
class Launch:
    kernel: Kernel
    arguments: dict  # parameter: Memory, or an expression


class Program:
    def __init__(self, code, symbols, inputs):
        """inputs: [(name, shape, dtype)] in the order of the call's arguments; symbols: {"s0": dimension}."""
        self.dimensions = {symbol: sympy.Symbol(name, integer=True, positive=True) for symbol, name in symbols.items()}
        self.inputs, self.kernels, self.launches, self.results = inputs, {}, [], []
        self.tensors, self.numbers = {}, {}
        module = ast.parse(code)
        for node in module.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                self._definition(node.targets[0], node.value)
        call = next((n for n in ast.walk(module) if isinstance(n, ast.FunctionDef) and n.name == "call"), None)
        if call is None:
            raise Inexpressible("the generated module has a form that is not known")
        self._block(call.body)

    # Kernels

    def _definition(self, target, call):
        maker = ast.unparse(call.func)
        if maker == "async_compile.triton":
            name, text = call.args[0].value, call.args[1].value
            functions = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
            self.kernels[name] = self._kernel(name, next((f for f in functions if f.name == name), None),
                                              [f for f in functions if f.name != name])
        elif maker.startswith("async_compile.") and maker != "async_compile.wait":
            raise Inexpressible(f"it has a kernel by {maker.partition('.')[2]}")

    def _kernel(self, name, function, helpers):
        made = next((d for d in (function.decorator_list if function else []) if isinstance(d, ast.Call)), None)
        given = {k.arg: k.value for k in made.keywords} if made else {}
        if not {"triton_meta", "inductor_meta"} <= set(given):
            raise Inexpressible(f"the kernel {name} has a form that is not known (a template of matrix products, perhaps)")
        fields = {}
        for part in ("triton_meta", "inductor_meta"):
            for key, value in zip(given[part].keys, given[part].values):
                if key.value in ("signature", "grid_type"):
                    fields[key.value] = ast.literal_eval(value)
        if fields.get("grid_type") not in GRIDS:
            raise Inexpressible(f"the kernel {name} has a grid of the kind {fields.get('grid_type')}")
        maker = ast.unparse(made.func)
        return Kernel(name, function, helpers, fields["signature"], fields["grid_type"], "reduction" in maker, "persistent" in maker)

    # Sizes

    def size(self, node):
        """A size in the generated text as an expression over dimensions."""
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return sympy.Integer(int(node.value))
        if isinstance(node, ast.Name):
            if node.id in self.numbers:
                return self.numbers[node.id]
            if node.id in self.dimensions:
                return self.dimensions[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.size(node.operand)
        if isinstance(node, ast.BinOp):
            make = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.Pow: lambda a, b: a**b,
                    ast.FloorDiv: symbolic.FloorDiv, ast.Mod: symbolic.Mod}.get(type(node.op))
            if make:
                return make(self.size(node.left), self.size(node.right))
        if isinstance(node, ast.Call) and not node.keywords and node.args:
            make = {"max": sympy.Max, "min": sympy.Min}.get(ast.unparse(node.func))
            if make:
                return make(*[self.size(a) for a in node.args])
        raise Inexpressible(f"it has the size {ast.unparse(node)}, which no expression of dimensions says")

    def _sizes(self, node):
        return [self.size(e) for e in node.elts]

    def _strides(self, node):
        return [plain(self.size(e)) for e in node.elts]

    # Steps

    def _block(self, statements):
        for statement in statements:
            if isinstance(statement, ast.With):
                self._block(statement.body)
            elif isinstance(statement, ast.Assign):
                self._assign(statement.targets[0], statement.value)
            elif isinstance(statement, ast.Expr):
                self._step(statement.value)
            elif isinstance(statement, ast.Return):
                values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
                self.results = [self._tensor(v) for v in values]
            elif not isinstance(statement, (ast.Delete, ast.Pass)):
                raise Inexpressible(f"its call has a {type(statement).__name__.lower()} statement")

    def _assign(self, target, value):
        text = ast.unparse(value)
        if text == "args":
            names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            if len(names) != len(self.inputs):
                raise Inexpressible(f"its call takes {len(names)} arguments for {len(self.inputs)} inputs")
            of_name = {d.name: d for d in self.dimensions.values()}
            for name, (own, shape, dtype) in zip(names, self.inputs):
                sizes = [of_name.get(s, sympy.Symbol(s, integer=True, positive=True)) if isinstance(s, str) else sympy.Integer(s)
                         for s in shape]
                memory = Memory(own, dtype, sympy.prod(sizes), True)
                self.tensors[name.id] = Tensor(memory, sizes, contiguous(sizes), sympy.S.Zero)
            return
        if not isinstance(target, ast.Name):
            raise Inexpressible(f"its call has the step {text[:80]}")
        name = target.id
        if isinstance(value, ast.Call):
            called = ast.unparse(value.func)
            if called in ("get_raw_stream", "get_cuda_stream") or called.endswith(".size") and not value.args:
                return
            if called.startswith("empty_strided"):
                if called not in ("empty_strided_cuda", "empty_strided"):
                    raise Inexpressible("it computes on the cpu, too")
                shape, strides, dtype = self._sizes(value.args[0]), self._strides(value.args[1]), ast.unparse(value.args[2]).split(".")[-1]
                if dtype not in BYTES:
                    raise Inexpressible(f"it has a buffer of {dtype}")
                self.tensors[name] = Tensor(Memory(name, dtype, extent(shape, strides)), shape, strides, sympy.S.Zero)
                return
        if isinstance(value, ast.Subscript):  # s0 = arg0_1_size[0]
            if name not in self.dimensions:
                raise Inexpressible(f"it has a size {name} that is no dimension")
            return
        if isinstance(value, ast.Name) and value.id in self.tensors or text.startswith("reinterpret_tensor("):
            self.tensors[name] = self._tensor(value)
            return
        if isinstance(value, ast.Call) and ast.unparse(value.func) not in ("max", "min"):
            raise Inexpressible(f"it calls {ast.unparse(value.func)}")
        self.numbers[name] = self.size(value)

    def _tensor(self, node):
        if isinstance(node, ast.Name) and node.id in self.tensors:
            return self.tensors[node.id]
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "reinterpret_tensor":
            base, shape, strides, offset = node.args[:4]
            return Tensor(self._tensor(base).memory, self._sizes(shape), self._strides(strides), self.size(offset))
        raise Inexpressible(f"it returns or passes {ast.unparse(node)[:80]}")

    def _step(self, call):
        if not isinstance(call, ast.Call):
            return
        called = ast.unparse(call.func)
        kernel = self.kernels.get(called[:-len(".run")]) if called.endswith(".run") else None
        if kernel is None:
            if called in SILENT:
                return
            raise Inexpressible(f"it calls {called}, which is no kernel in Triton")
        parameters = [a.arg for a in kernel.function.args.args if a.annotation is None]
        if len(call.args) != len(parameters):
            raise Inexpressible(f"the kernel {kernel.name} has {len(parameters)} parameters and gets {len(call.args)}")
        arguments = {}
        for name, given in zip(parameters, call.args):
            if kernel.signature.get(name, "").startswith("*"):
                tensor = self._tensor(given)
                if tensor.offset != 0:
                    raise Inexpressible(f"the kernel {kernel.name} gets a tensor from its middle")
                if tensor.memory.is_input and name.startswith("in_out"):
                    raise Inexpressible(f"the kernel {kernel.name} changes the input {tensor.memory.name}")
                arguments[name] = tensor.memory
            else:
                arguments[name] = self.size(given)
        self.launches.append(Launch(kernel, arguments))


def contiguous(shape):
    strides, step = [], sympy.S.One
    for size in reversed(shape):
        strides.insert(0, step)
        step = step * size
    return strides


def is_contiguous(tensor):
    return tensor.offset == 0 and all(size == 1 or sympy.expand(own - right) == 0 for size, own, right in
                                      zip(tensor.shape, tensor.strides, contiguous(tensor.shape)))


def plain(stride):
    """A stride of max(1, size), for a size that could be 0, which none of an output is: the size."""
    return stride.replace(lambda e: isinstance(e, sympy.Max) and sympy.S.One in e.args,
                          lambda e: sympy.Max(*[a for a in e.args if a != 1]))


def extent(shape, strides):
    """The elements that a tensor reaches over: their number, where it is dense."""
    whole = sympy.prod(shape)
    reached = 1 + sum(((size - 1) * stride for size, stride in zip(shape, strides)), sympy.S.Zero)
    return whole if sympy.expand(reached - whole) == 0 else reached
