# SPDX-License-Identifier: Apache-2.0
"""Regions of a model: submodules that could be tasks, with equal ones as one region."""

import hashlib
import re

import torch

from .fast_package import PLAIN, traits
from .model_functions import FunctionCall, arguments_of_function, matched, watched
from .model_source import arguments_of
from .refusal import brief
from .subject import identifier

SHORT = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16", torch.int64: "i64", torch.int32: "i32"}


class Part:
    """A submodule as one pass through the model calls it."""

    def __init__(self, path, module):
        self.path, self.module, self.calls = path, module, []  # one entry a call: (arguments by name or None, result)


class Region:
    """Submodules with the same class, sizes, constants and operations."""

    def __init__(self, part, arguments, result, signature):
        self.part, self.arguments, self.result, self.signature = part, arguments, result, signature
        self.at, self.why_not = {}, ""  # calls by the path of a module; why it can be no task
        self.times = self.base = None  # seconds of all calls in a pass: eager, and in the fastest baseline (model_times.Times)
        self.floor, self.floor_of, self.name = 0.0, "", ""
        self.saves = None  # seconds of a pass that its calls cost within the compiled model, if that was measured
        self.match, self.strides = None, None  # of a function of PyTorch: model_functions.matched

    @property
    def kind(self):
        return self.part.module.known.name if self.known else type(self.part.module).__name__

    @property
    def known(self):
        """The function of PyTorch that it calls; None: it is a module."""
        return self.part.module.known if isinstance(self.part.module, FunctionCall) else None

    def needed(self, flops):
        """Of the operations that PyTorch counts for a call, those that no kernel can leave out. Fused attention is not counted on every
        device, and never by its mask."""
        if not self.match or self.match["task"] != "attention_forward":
            return flops
        (batch, queries, heads, depth), keys = self.match["shapes"][0], self.match["shapes"][1][1]
        return 4 * batch * heads * queries * keys * depth / (2 if self.match["numbers"]["causal"] else 1)

    @property
    def paths(self):
        return list(self.at)

    @property
    def calls(self):
        return sum(self.at.values())

    def tensors(self):
        return {name: value for name, value in self.arguments.items() if isinstance(value, torch.Tensor)}

    def sizes_text(self):
        return ", ".join(f"{name} {shape_text(value)}" for name, value in self.tensors().items())

    def bytes(self):
        """The least memory traffic of one call: each input, parameter and output once."""
        states = list(self.part.module.parameters()) + list(self.part.module.buffers())
        outputs = self.result if isinstance(self.result, (tuple, list)) else [self.result]
        return sum(t.numel() * t.element_size() for t in [*self.tensors().values(), *states, *outputs])


def shape_text(tensor):
    return f"{SHORT.get(tensor.dtype, str(tensor.dtype)[6:])}[{', '.join(map(str, tensor.shape))}]"


def parts_of(model, args, kwargs, functions=()):
    """Every submodule that a pass calls, and every call of these functions, with arguments and results."""
    parts = {}

    def after(path, module, given, result):
        own = isinstance(module, FunctionCall)
        arguments = arguments_of_function(module.known, *given) if own else arguments_of(module, *given)
        parts.setdefault(path, Part(path, module)).calls.append((arguments, result))

    with torch.no_grad(), watched(model, functions, lambda path: None, after):
        model(*args, **kwargs)
    order = {path: k for k, (path, _) in enumerate(model.named_modules())}
    return sorted(parts.values(), key=lambda part: (order.get(part.path, len(order)), part.path))


FLOATS = {"cpu": (torch.float32,), "cuda": (torch.float32, torch.bfloat16, torch.float16)}


def unfit(module, arguments, result, device="cpu"):
    """Why a call of a module can be no task; empty: nothing is known against it."""
    if arguments is None:
        return "forward takes any number of arguments"
    if isinstance(module, FunctionCall):
        return ""  # matched() decides
    floats = FLOATS[device]
    tensors = {n: v for n, v in arguments.items() if isinstance(v, torch.Tensor)}
    if not any(v.dtype.is_floating_point for v in tensors.values()):
        return "no input is floating point"
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor):
            if value.dtype not in (*floats, torch.int64, torch.int32):
                return f"{name} has the dtype {str(value.dtype)[6:]}"
            if not value.is_contiguous():
                return f"{name} is not contiguous, so a kernel would need a copy"
            if value.dtype.is_floating_point and not bool(torch.isfinite(value).all()):
                return f"{name} holds values that are not finite"
        elif not isinstance(value, PLAIN):
            return f"{name} is a {type(value).__name__}"
    outputs = result if isinstance(result, (tuple, list)) else [result]
    for value in outputs:
        if not isinstance(value, torch.Tensor) or value.dtype not in floats:
            return "it returns something other than tensors in " + " or ".join(SHORT[f] for f in floats)
        if not value.is_contiguous():
            return "its result is not contiguous, so a kernel's would need a copy"
    if any(p.dtype not in floats for p in module.parameters()):
        return "a parameter is not " + " or ".join(SHORT[f] for f in floats)
    if len({t.dtype for t in [*tensors.values(), *outputs, *module.parameters()] if t.dtype.is_floating_point}) > 1:
        return "its tensors have several floating-point dtypes"
    if any(not p.is_contiguous() for p in module.parameters()):
        return "a parameter is not contiguous, so a kernel would need a copy"
    if any(isinstance(m, torch.nn.RNNBase) for m in module.modules()):
        return "it is recurrent"
    return ""


def regions_of(parts, device="cpu"):
    """Parts as regions, those with the most calls of the largest classes first."""
    found = {}
    for part in parts:
        own = traits(part.module)
        for arguments, result in part.calls:
            why = unfit(part.module, arguments, result, device)
            sizes = [] if arguments is None else [
                (n, shape_text(v) if isinstance(v, torch.Tensor) else repr(v)) for n, v in arguments.items()]
            key = (own, repr(sizes), why)
            region = found.setdefault(key, Region(part, arguments or {}, result, hashlib.sha256(repr(key).encode()).hexdigest()[:16]))
            region.why_not = why
            region.at[part.path] = region.at.get(part.path, 0) + 1
    return sorted(found.values(), key=lambda r: (-r.calls * max(1, sum(p.numel() for p in r.part.module.parameters())), r.paths[0]))


def understood(region, device):
    """Whether it can be a task: a function whose task computes the same, or a module that torch.export understands; else sets why_not."""
    if region.known is None:
        return export(region) is not None
    found, strides = matched(region.known, region.arguments, region.result, device)
    if strides is None:
        region.why_not = found
    elif found["dtype"] not in [str(f)[6:] for f in FLOATS[device]]:
        region.why_not = f"it computes in {found['dtype']}"
    else:
        region.match, region.strides = found, strides
    return not region.why_not


def export(region):
    """Whether torch.export understands it; sets why_not."""
    try:
        with torch.no_grad():
            program = torch.export.export(region.part.module, (), dict(region.arguments))
    except Exception as error:
        region.why_not = f"torch.export fails: {brief(error, 120)}"
        return None
    mutated = getattr(program.graph_signature, "buffers_to_mutate", None) or getattr(program.graph_signature, "user_inputs_to_mutate", None)
    if mutated:
        region.why_not = "it changes its inputs or buffers"
    return program


def within(inner, outer):
    """Whether a region lies inside of another one."""
    return any(i.startswith(o + ".") for i in inner.paths for o in outer.paths)


def give_names(regions):
    """A short name for each region, unique: that of its class."""
    taken = set()
    for region in regions:
        region.name = identifier(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", region.kind).lower(), taken)
        taken.add(region.name)
