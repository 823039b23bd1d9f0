# SPDX-License-Identifier: Apache-2.0
"""A whole model and its inputs, as the user's files give them."""

import inspect
import os
import warnings

import torch

from .refusal import Refusal, brief
from .source import Source

HOW = (
    "With --inputs the file is a whole model: FILE.py:NAME names a function without arguments that returns a torch.nn.Module, a class "
    "derived from it, or a module. Without --inputs it is one task."
)
INPUTS = (
    "--inputs names a function without arguments, of the model's file (NAME) or of another (FILE.py:NAME), that draws the inputs of one "
    "call anew each time: a tensor, a list or tuple of positional arguments, or a dict of arguments by name."
)


class WholeModel:
    """The user's model in evaluation mode, and `draw(seed)`, the arguments of one call."""

    def __init__(self, file, inputs, device="cpu"):
        path, name = split(file)
        self.device = device
        self.source = Source(path, name, naming=False)
        if self.source.kind == "function":
            raise Refusal(f"{self.source.name} takes arguments, so it builds no model.", HOW)
        self.inputs_path, self.inputs_name = self._find_inputs(inputs)
        if self.inputs_path == self.source.path:
            self.maker, self.inputs_files = getattr(self.source.module, self.inputs_name, None), {}
        else:
            other = Source(self.inputs_path, self.inputs_name, naming=False)
            self.maker, self.inputs_files = other.program, {**other.local_files, os.path.basename(other.path): other.path}
        if not callable(self.maker):
            raise Refusal(f"{os.path.basename(self.inputs_path)} defines no function {self.inputs_name}.", INPUTS)

    def _find_inputs(self, inputs):
        path, name = split(inputs)
        if os.path.isfile(path):
            return os.path.abspath(path), name or "inputs"
        if inputs.isidentifier():
            return self.source.path, inputs
        raise Refusal(f"--inputs {inputs} is neither a file nor the name of a function.", INPUTS)

    def build(self):
        """The module, with the same parameters each time."""
        source = self.source
        try:
            with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.manual_seed(0)
                model = source.program if source.kind == "instance" else source.program()
        except Exception as error:
            raise Refusal(f"{source.name} cannot be built: {brief(error)}.", "It must be built without arguments, network or a GPU.") from None
        if not isinstance(model, torch.nn.Module):
            raise Refusal(f"{source.name} returns a {type(model).__name__}, not a torch.nn.Module.", HOW)
        return getattr(model, "_orig_mod", model).eval().requires_grad_(False).to(self.device)  # what torch.compile was given

    def draw(self, seed):
        """The arguments of one call: positional ones, and those by name."""
        torch.manual_seed(seed)
        try:
            made = self.maker()
        except Exception as error:
            raise Refusal(f"The inputs cannot be made: {brief(error)}.", INPUTS) from None
        if isinstance(made, torch.Tensor):
            made = (made,)
        if isinstance(made, dict):
            args, kwargs = (), made
        elif isinstance(made, (list, tuple)):
            args, kwargs = tuple(made), {}
        else:
            raise Refusal(f"{self.inputs_name} returns a {type(made).__name__}.", INPUTS)
        if not any(isinstance(v, torch.Tensor) for v in [*args, *kwargs.values()]):
            raise Refusal(f"{self.inputs_name} returns no tensor.", INPUTS)
        return torch.utils._pytree.tree_map(lambda v: v.to(self.device) if isinstance(v, torch.Tensor) else v, (args, kwargs))

    def expression(self, module="whole_model"):
        """How a file beside the copies of the user's files makes the model."""
        return f"{module}.{self.source.name}" + ("" if self.source.kind == "instance" else "()")

    def files(self):
        """{name in the campaign's folder of sources: the user's file}"""
        found = {"whole_model.py": self.source.path}
        for relative, whole in {**self.source.local_files, **self.inputs_files}.items():
            if relative in ("model.py", "reference.py", "whole_model.py"):
                raise Refusal(f"The model imports a local file {relative}, and its tasks need that name.", "Rename it.")
            if whole != self.source.path:
                found[relative] = whole
        return found

    def inputs_expression(self):
        """The module and function in that folder which draw the inputs."""
        if self.inputs_path == self.source.path:
            return "whole_model", self.inputs_name
        return os.path.splitext(os.path.basename(self.inputs_path))[0], self.inputs_name


def split(text):
    """FILE.py:NAME as file and name, or None for the name."""
    if not os.path.exists(text) and ":" in os.path.basename(text):
        return tuple(text.rsplit(":", 1))
    return text, None


def arguments_of(module, args, kwargs):
    """The arguments of a call by the names of forward's parameters; None if it takes any number."""
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):
        return None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY) for p in signature.parameters.values()):
        return None
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError:
        return None
