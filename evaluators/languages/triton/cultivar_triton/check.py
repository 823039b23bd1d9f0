# SPDX-License-Identifier: Apache-2.0
"""What a variant in Triton may consist of, read from its syntax alone: nothing of it is run here.

Imports of Triton, functions under @triton.jit, and names with literal values. `check` raises Refused at the first
thing that is something else.
"""
import ast

MODULES = ("triton", "triton.language", "triton.language.extra", "triton.language.extra.cuda",
           "triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")
STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.For, ast.While, ast.If, ast.Return, ast.Pass,
              ast.Break, ast.Continue, ast.Assert)
EXPRESSIONS = (ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call, ast.Constant, ast.Attribute,
               ast.Subscript, ast.Name, ast.Tuple, ast.List, ast.Slice, ast.Starred, ast.JoinedStr, ast.FormattedValue,
               ast.keyword, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.arguments, ast.arg)


class Refused(Exception):
    """A reason in one line, the remedy, and the line of the source (0: none)."""

    def __init__(self, line, reason, remedy, stage="screen"):
        super().__init__(reason)
        self.line, self.reason, self.remedy, self.stage = line, reason, remedy, stage


def dotted(node):
    """"tl.math.exp" of such an expression; None of any other."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def literal(node):
    """Whether an expression is a number, a text, True, False, None, or a tuple or simple sum of such."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float, str, type(None)))
    if isinstance(node, ast.Tuple):
        return all(literal(e) for e in node.elts)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, (ast.USub, ast.UAdd, ast.Invert, ast.Not)) and literal(node.operand)
    if isinstance(node, ast.BinOp):
        return (isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv)) and number(node.left) and
                number(node.right))
    return False


def number(node):
    return literal(node) and not any(isinstance(n, (ast.Tuple, ast.Not)) or
                                     isinstance(n, ast.Constant) and not isinstance(n.value, (int, float))
                                     for n in ast.walk(node))


class Source:
    """What a variant's file defines: functions and values by name, and `modules`: what its imports are called."""

    def __init__(self, text):
        try:
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            words = getattr(error, "msg", None) or error
            if isinstance(error, (RecursionError, MemoryError)):
                words = "an expression is nested too deeply"
            raise Refused(getattr(error, "lineno", 0) or 0, f"this is not Python: {words}", "Correct the line.",
                          "compile") from None
        self.functions, self.values, self.modules, self.imported = {}, {}, {}, {}
        for index, node in enumerate(self.tree.body):
            self.statement(node, index)
        for function in self.functions.values():
            self.body(function)

    # --- Outside functions ---

    def statement(self, node, index):
        if isinstance(node, ast.Expr) and index == 0 and isinstance(node.value, ast.Constant) and \
                isinstance(node.value.value, str):
            return  # the manifest
        if isinstance(node, ast.Import):
            for name in node.names:
                self.module(node, name.name)
                if name.asname is None and "." in name.name:
                    self.modules["triton"] = "triton"
                else:
                    self.modules[self.fresh(node, name.asname or name.name)] = name.name
        elif isinstance(node, ast.ImportFrom):
            self.module(node, node.module if node.level == 0 else "." * node.level + (node.module or ""))
            for name in node.names:
                if name.name == "*" or name.name.startswith("_"):
                    raise Refused(node.lineno, f"'{name.name}' is imported from {node.module}",
                                  "Import the names that the kernels use, or triton.language as tl.")
                called = self.fresh(node, name.asname or name.name)
                whole = f"{node.module}.{name.name}"
                if whole in MODULES:
                    self.modules[called] = whole
                else:
                    self.imported[called] = (node.module, name.name)
        elif isinstance(node, ast.FunctionDef):
            self.function(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            self.assignment(node)
        else:
            what = {ast.ClassDef: "a class", ast.AsyncFunctionDef: "an async function"}.get(type(node), "code")
            raise Refused(node.lineno, f"there is {what} outside the kernels",
                          "A variant has imports of Triton, functions under @triton.jit, and names with literal values. "
                          "Nothing else of it is run: the launches are those of the manifest.")

    def module(self, node, name):
        if name not in MODULES:
            raise Refused(node.lineno, f"the source imports {name}",
                          "Only triton, triton.language and triton.language.extra.libdevice can be imported: what a "
                          "host program would compute is an expression of the manifest, or a tunable.")

    def fresh(self, node, name):
        if name.startswith("__"):
            raise Refused(node.lineno, f"the name {name} belongs to Python", "Choose another name.")
        if name in self.functions or name in self.values or name in self.modules or name in self.imported:
            raise Refused(node.lineno, f"the name {name} is defined twice", "Choose another name.")
        return name

    def function(self, node):
        if not node.decorator_list:
            raise Refused(node.lineno, f"the function {node.name} is not under @triton.jit",
                          "Only kernels and what they call are compiled: write @triton.jit above it.")
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = self.known_as(called)
            if name in ("triton.autotune", "triton.heuristics"):
                raise Refused(decorator.lineno, f"the kernel {node.name} is under @{name}",
                              "The search tunes: declare what it tries as `tunables` of the manifest, with num_warps and "
                              "num_stages in the launch, and take the decorator away."
                              if name.endswith("autotune") else
                              "Declare the value as a `let` of the manifest, list it in `specialize`, and take the "
                              "decorator away.")
            if name != "triton.jit":
                raise Refused(decorator.lineno, f"the function {node.name} is under @{dotted(called) or '...'}",
                              "Only @triton.jit may stand above a function.")
            if isinstance(decorator, ast.Call):
                raise Refused(decorator.lineno, "@triton.jit has arguments",
                              "Write @triton.jit alone: what is specialized, the manifest says.")
        if len(node.decorator_list) > 1:
            raise Refused(node.decorator_list[1].lineno, f"{node.name} is under @triton.jit twice", "Remove one.")
        arguments = node.args
        if arguments.vararg or arguments.kwarg:
            raise Refused(node.lineno, f"the function {node.name} takes any number of arguments", "Name each parameter.")
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None and not literal(default):
                raise Refused(default.lineno, f"a default value of {node.name} is no literal", "Write a number.")
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            note = argument.annotation
            if note is None or self.known_as(note) == "triton.language.constexpr":
                continue
            if not (isinstance(note, ast.Constant) and isinstance(note.value, str)):
                raise Refused(argument.lineno, f"the parameter {argument.arg} has the annotation {ast.unparse(note)}",
                              "Write tl.constexpr, or the type of a workspace's elements: \"*fp32\".")
        if node.returns is not None:
            raise Refused(node.lineno, f"the function {node.name} says what it returns", "Remove the annotation.")
        self.functions[self.fresh(node, node.name)] = node

    def known_as(self, node):
        """The full name of what an expression such as tl.constexpr refers to."""
        name = dotted(node)
        if name is None:
            return None
        first, _, rest = name.partition(".")
        if first in self.imported and not rest:
            return ".".join(self.imported[first])
        return ".".join(p for p in (self.modules.get(first, first), rest) if p)

    def assignment(self, node):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value
        if isinstance(value, ast.Call) and self.known_as(value.func) == "triton.language.constexpr" and \
                len(value.args) == 1 and not value.keywords:
            value = value.args[0]
        if len(targets) != 1 or not isinstance(targets[0], ast.Name) or value is None or not literal(value):
            raise Refused(node.lineno, "a value outside the kernels is no literal",
                          "Write NAME = 123 or NAME = tl.constexpr(123); what depends on sizes or tunables is a `let` of "
                          "the manifest that `specialize` lists.")
        name = self.fresh(node, targets[0].id)
        try:
            self.values[name] = evaluated(value)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Refused(node.lineno, f"{name} has no value: {error}", "Write the number.") from None

    # --- In functions ---

    def body(self, function):
        for statement in function.body:
            for node in ast.walk(statement):
                self.node(function, node)

    def node(self, function, node):
        line = getattr(node, "lineno", function.lineno)
        if isinstance(node, ast.stmt):
            if isinstance(node, STATEMENTS):
                return
            raise Refused(line, f"the kernel {function.name} has a statement {type(node).__name__.lower()}",
                          "Imports, functions and classes inside a kernel, exceptions, `with`, `global` and `del` are not "
                          "compiled.")
        if not isinstance(node, EXPRESSIONS):
            raise Refused(line, f"the kernel {function.name} has an expression {type(node).__name__.lower()}",
                          "Write it as a loop or with Triton's functions.")
        if isinstance(node, ast.Attribute):
            if node.attr.startswith("_") or node.attr in ("handle", "fn"):
                raise Refused(line, f"the kernel uses the attribute {node.attr}",
                              "Only what Triton documents of its language may be used.")
            return
        if isinstance(node, ast.keyword) and (node.arg or "_").startswith("_"):
            raise Refused(node.value.lineno, f"the kernel passes {node.arg or '**'} to a function",
                          "Only what Triton documents of its language may be used.")
        if not isinstance(node, ast.Name):
            return
        if node.id in ("print", "getattr", "hasattr") and node.id not in self.functions:
            raise Refused(line, f"the kernel calls {node.id}",
                          "Nothing reads the output; remove it." if node.id == "print" else
                          "Write the attribute by its name.")
        if node.id.startswith("__"):
            raise Refused(line, f"the kernel uses {node.id}", "Names with two underscores belong to Python.")


def evaluated(node):
    """The value of what literal() accepts. Products of numbers of the source's size only: no powers, no shifts."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(evaluated(e) for e in node.elts)
    if isinstance(node, ast.UnaryOp):
        value = evaluated(node.operand)
        return {ast.USub: lambda: -value, ast.UAdd: lambda: +value, ast.Invert: lambda: ~value,
                ast.Not: lambda: not value}[type(node.op)]()
    left, right = evaluated(node.left), evaluated(node.right)
    return {ast.Add: lambda: left + right, ast.Sub: lambda: left - right, ast.Mult: lambda: left * right,
            ast.Div: lambda: left / right, ast.FloorDiv: lambda: left // right}[type(node.op)]()
