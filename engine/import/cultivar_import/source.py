# SPDX-License-Identifier: Apache-2.0
"""Reads the user's file: what in it is the program, where its examples are, and which local files it imports."""

import ast
import importlib.util
import inspect
import os
import sys
import types

import torch

from .refusal import Refusal, brief

HOW = (
    "A class derived from torch.nn.Module is a model: it is built once from get_init_inputs() (or without arguments), its "
    "parameters become inputs of the task, and forward(...) is the program. Any other callable is a function: its tensors "
    "are its arguments, and it must return a tensor or a tuple of tensors. Without :NAME the class Model is taken, or else "
    "the only public function or module class of the file, or else build(), which returns a module."
)
EXAMPLES = ("get_inputs", "example_inputs", "inputs")  # which of them is there gives the examples of inputs
SPECIAL = {"get_init_inputs", *EXAMPLES}


class NamedInt(int):
    """A whole number that remembers the name under which the file keeps it."""

    def __new__(cls, value, label):
        number = int.__new__(cls, value)
        number.label = label
        return number

    def __reduce__(self):
        return (int, (int(self),))

    __deepcopy__ = lambda self, memo: int(self)


def named(value, label):
    if type(value) in (tuple, list) and value and all(type(v) is int for v in value):
        return type(value)(named(v, f"{label}_{k}" if len(value) > 1 else label) for k, v in enumerate(value))
    return NamedInt(value, label) if type(value) is int and value > 1 else value


class _NameNumbers(ast.NodeTransformer):
    """NAME = value at the top of a file becomes NAME = named(value, "NAME")."""

    def visit_Module(self, node):
        for statement in node.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
                statement.value = ast.Call(
                    func=ast.Name("__cultivar_named__", ast.Load()),
                    args=[statement.value, ast.Constant(statement.targets[0].id)], keywords=[])
        return ast.fix_missing_locations(node)


class Source:
    """The loaded file. `program` is the function, module class or module; `kind` says which."""

    def __init__(self, path, name=None, naming=True):
        self.path = os.path.abspath(path)
        self.folder = os.path.dirname(self.path)
        try:
            with open(self.path, encoding="utf-8") as file:
                self.text = file.read()
        except OSError as error:
            raise Refusal(f"{path} cannot be read ({error.strerror}).", "Give the path of a Python file.") from None
        except UnicodeDecodeError:
            raise Refusal(f"{path} is not text in UTF-8.", "Give the path of a Python file.") from None
        try:
            self.tree = ast.parse(self.text)
        except SyntaxError as error:
            raise Refusal(f"{path}:{error.lineno}: {error.msg}.", "Correct the file.") from None
        self.local_files = self._local_files(self.path, self.tree)
        self.module = self._execute(naming)
        self._choose(name)

    def _local_files(self, path, tree, known=None):
        """Files beside the file that it imports, and those that these import; refuses what is nowhere."""
        known = {} if known is None else known
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                raise Refusal(f"{os.path.basename(path)}:{node.lineno}: it imports from its own package (a relative import).",
                              "Import by a plain name from a file beside it.")
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else (
                [node.module] if isinstance(node, ast.ImportFrom) else [])
            for full in names:
                parts = full.split(".")
                file = os.path.join(self.folder, parts[0] + ".py")
                package = os.path.join(self.folder, parts[0], "__init__.py")
                if os.path.isfile(package):
                    for folder, folders, files in os.walk(os.path.dirname(package)):
                        folders[:] = [f for f in folders if f != "__pycache__"]
                        for each in files:
                            if each.endswith(".py"):
                                whole = os.path.join(folder, each)
                                known[os.path.relpath(whole, self.folder)] = whole
                    continue
                if os.path.isfile(file):
                    relative = os.path.relpath(file, self.folder)
                    if relative not in known and file != self.path:
                        known[relative] = file
                        with open(file, encoding="utf-8") as opened:
                            self._local_files(file, ast.parse(opened.read()), known)
                    continue
                if parts[0] in sys.modules or parts[0] in sys.builtin_module_names:
                    continue
                try:
                    found = importlib.util.find_spec(parts[0]) is not None
                except (ImportError, ValueError):
                    found = False
                if not found and not _guarded(tree, node):
                    raise Refusal(
                        f"{os.path.basename(path)}:{node.lineno}: it imports {full}, and there is neither a file {parts[0]}.py "
                        f"beside it nor a package {parts[0]} for {sys.executable}.",
                        f"Put {parts[0]}.py beside the file, or install the package.")
        return known

    def _execute(self, naming):
        tree = _NameNumbers().visit(ast.parse(self.text)) if naming else self.tree
        module = types.ModuleType("cultivar_model")
        module.__file__ = self.path
        module.__cultivar_named__ = named
        sys.modules["cultivar_model"] = module
        if self.folder not in sys.path:
            sys.path.insert(0, self.folder)
        argv, sys.argv = sys.argv, [self.path]
        try:
            exec(compile(tree, self.path, "exec"), module.__dict__)
        except Refusal:
            raise
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, MemoryError)):
                raise
            raise Refusal(f"The file fails when it is read: {brief(error)}.",
                          "It must be readable without arguments, network or a GPU.") from None
        finally:
            sys.argv = argv
        return module

    def _choose(self, name):
        own = {
            key: value for key, value in vars(self.module).items()
            if not key.startswith("_") and key not in SPECIAL and getattr(value, "__module__", None) == "cultivar_model"
            and (inspect.isfunction(value) or (inspect.isclass(value) and issubclass(value, torch.nn.Module)))}
        if name is not None:
            if not hasattr(self.module, name):
                raise Refusal(f"{os.path.basename(self.path)} defines no {name}.",
                              f"It defines {', '.join(sorted(own)) or 'no public function or module'}.")
        elif "Model" in own:
            name = "Model"
        else:
            modules = [k for k, v in own.items() if inspect.isclass(v)]
            if len(own) == 1:
                name = next(iter(own))
            elif inspect.isfunction(own.get("build")) and not inspect.signature(own["build"]).parameters:
                name = "build"
            elif len(own) > 1:
                raise Refusal(f"{os.path.basename(self.path)} defines several programs: {', '.join(sorted(own))}.",
                              f"Name one: {os.path.basename(self.path)}:{(modules or sorted(own))[0]}.")
            else:
                raise Refusal(f"{os.path.basename(self.path)} defines no public function or torch.nn.Module class.", HOW)
        self.name = name
        self.program = getattr(self.module, name)
        if inspect.isclass(self.program):
            if not issubclass(self.program, torch.nn.Module):
                raise Refusal(f"{name} is a class, but not a torch.nn.Module.", HOW)
            self.kind = "class"
        elif isinstance(self.program, torch.nn.Module):
            self.kind = "instance"
        elif callable(self.program):
            self.kind = "function"
            signature = inspect.signature(self.program)
            if not signature.parameters and inspect.isfunction(self.program):
                self.kind = "factory"  # build() -> a module; checked when it is called
        else:
            raise Refusal(f"{name} is a {type(self.program).__name__}; it cannot be called.", HOW)

    @property
    def is_kernelbench(self):
        return self.kind == "class" and self.name == "Model" and all(
            callable(getattr(self.module, f, None)) for f in ("get_inputs", "get_init_inputs"))

    def mentions_mode(self):
        """Whether the file itself decides between training and evaluation."""
        return any(isinstance(n, ast.Attribute) and n.attr in ("eval", "train") for n in ast.walk(self.tree))

    def named_numbers(self):
        """{value: name} of the whole numbers at the top of the file, where a value has one name only."""
        names = {}
        for key, value in vars(self.module).items():
            if isinstance(value, NamedInt):
                names.setdefault(int(value), []).append(key)
        return {value: keys[0] for value, keys in names.items() if len(keys) == 1}


def _guarded(tree, node):
    """Whether an import stands in a try statement."""
    return any(isinstance(t, ast.Try) and any(n is node for b in t.body for n in ast.walk(b)) for t in ast.walk(tree))
