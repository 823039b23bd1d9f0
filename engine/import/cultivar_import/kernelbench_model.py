# SPDX-License-Identifier: Apache-2.0
"""Writes model_new.py: the problem's Model with an operator in place of its forward, as KernelBench's evaluator takes it.
`cultivar export` puts the problem in front of it and the operator of a kernel (engine/export)."""

import inspect
import os
import re

import torch

from .subject import Input, _plain


def write(done):
    """Of a finished import of a KernelBench file; nothing for nested results, and for constants that a kernel cannot know."""
    if done.flatten:
        return
    drawn = _drawn_constants(done)
    if drawn:
        done.to_check.append(f"the constructor draws {', '.join(drawn)}, which a kernel has as constants: another draw is another "
                             "task, so exports have no ModelNew for KernelBench")
        return
    with open(os.path.join(done.out, "model_new.py"), "w", encoding="utf-8") as file:
        file.write(text(done))


def text(done):
    names, more = _signature(done)
    given = iter(names)
    used, lines = {}, []
    for argument in done.subject.arguments:
        name = next(given)
        if isinstance(argument, Input):
            used[id(argument)] = name + _cast(argument.dtype)
        else:
            lines += [f"        if {name} != {_plain(argument[1])!r}:",
                      f'            raise ValueError("this kernel is for {name} = {_plain(argument[1])!r}")']
    for item in done.inputs:
        if item.origin != "example":
            used[id(item)] = "self." + re.sub(r"\.(\d+)", r"[\1]", item.path) + ("" if item.floating else _cast(item.dtype))
    call = f"_operator({', '.join(used[id(item)] for item in done.inputs)})"
    if done.booleans:
        lines += [f"        result = {call}"]
        if len(done.output_names) == 1:
            call = "result.bool()"
        else:
            call = "tuple(r.bool() if k in %r else r for k, r in enumerate(result))" % (tuple(done.booleans),)
    signature = ", ".join(["self"] + names + [f"{name}={value!r}" for name, value in more])
    return "\n".join([
        "class ModelNew(_Model):",
        '    """The same parameters from the same constructor; forward is the kernel. It computes no gradients, and no running statistics."""',
        "", "    @torch.no_grad()", f"    def forward({signature}):"] + lines + [f"        return {call}"]) + "\n"


def _drawn_constants(done):
    """Buffers that are constants of the task, and differ between two modules."""
    paths = [path for path, _ in done.subject.constants]
    if not paths:
        return []
    made = []
    for seed in (1, 2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = done.source.program(*done.source.module.get_init_inputs())
        made.append(dict(module.named_buffers()))
    return [path for path in paths if not torch.equal(made[0][path], made[1][path])]


def _signature(done):
    """Names of the arguments that the example gives, and the others with their defaults."""
    parameters = list(inspect.signature(done.source.program.forward).parameters.values())[1:]
    count = len(done.subject.arguments)
    names = [p.name for p in parameters[:count] if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names += [f"more_{k}" for k in range(len(names), count)]
    return names, [(p.name, p.default) for p in parameters[count:] if p.default is not p.empty]


def _cast(dtype):
    """The evaluator passes every tensor as floating point."""
    if dtype.is_floating_point:
        return ""
    return ".to(torch.uint8)" if dtype == torch.bool else f".to({dtype})"
