# SPDX-License-Identifier: Apache-2.0
"""Writes task.yaml and the contenders."""

import math

from .shapes import text_of


def quoted(text):
    text = " ".join(str(text).split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def number(value):
    if isinstance(value, str):
        return quoted(value)
    if float(value) == int(value) and abs(value) < 1e9:
        return str(int(value))
    text = f"{value:.3g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent)}"
    return text


def fill_text(fill):
    parts = [f"kind: {fill['kind']}"]
    for key in ("a", "b"):
        if key in fill:
            parts.append(f"{key}: {number(fill[key])}")
    if "axis" in fill:
        parts.append(f"axis: {fill['axis']}")
    return "{" + ", ".join(parts) + "}"


def workload_text(dims, assignment):
    return "{" + ", ".join(f"{k}: {v}" for k, v in assignment.items()) + "}"


def product_text(shape):
    return " * ".join(str(s) for s in shape) if shape else "1"


def bytes_text(tensors):
    """tensors: [(shape, bytes of an element or None)]"""
    own, fixed, constant = [], [], 0
    for shape, size in tensors:
        if size is None:
            own.append(product_text(shape))
        elif all(isinstance(s, int) for s in shape):
            constant += size * math.prod(shape)
        else:
            fixed.append(f"{size} * {product_text(shape)}")
    terms = ([f"({' + '.join(own)}) * element_bytes"] if own else []) + fixed + ([str(constant)] if constant else [])
    return " + ".join(terms)


def composed(parts):
    """The text of task.yaml from the parts of it."""
    controls = "\ncontrols:\n" + "".join(c["text"] for c in parts["controls"]) if parts["controls"] else ""
    return parts["before"] + controls + parts["after"]


def task_yaml(t):
    """The parts of task.yaml from a finished import: {"before", "controls": [{"name", "about", "serious", "text"}], "after"}."""
    dims = t.dims
    out = [f"# Written by `cultivar import` from {t.source_name}: read it, and correct what it assumes.", f"name: {t.name}",
           f"summary: {quoted(t.summary)}", "", "dimensions:"]
    for name, value in dims.free.items():
        about = quoted(f"{dims.about[name]} ({value} in the example)")
        out.append(f"  {name}: {{about: {about}}}")
    for name, expression in dims.derived.items():
        out.append(f"  {name}: {{about: {quoted('follows from the others')}, default: {quoted(text_of(expression))}}}")
    for d in t.more_dimensions:
        out.append(f"  {d.name}: {{about: {quoted(d.about or 'follows from the others')}, default: {quoted(d.default)}}}")
    out += ["", f"dtypes: [{', '.join(t.dtypes)}]", "", "tensors:"]

    def shape_text(shape):
        return "[" + ", ".join(str(s) for s in shape) + "]"

    for item, shape in zip(t.inputs, dims.shapes):
        dtype = t.input_dtype(item)
        out.append(f"  {item.name}: {{role: input, shape: {shape_text(shape)}" + (f", dtype: {dtype}" if dtype else "") +
                   f", fill: {fill_text(t.fills[item.name])}}}")
    for k, (name, shape) in enumerate(zip(t.output_names, dims.outputs)):
        dtype = t.output_dtype(k)
        rows = "" if t.rows_of[k] == t.rows else f", rows: {shape_text(t.rows_of[k])}"
        place = f", in_place: {t.in_place[k]}" if k in t.in_place else ""
        out.append(f"  {name}: {{role: output, shape: {shape_text(shape)}" + (f", dtype: {dtype}" if dtype else "") + rows + place + "}")
    out += ["", f"rows: {shape_text(t.rows)}"]
    relations = dims.relations()
    if relations:
        out += ["", "where:"] + [f"  - {quoted(r)}" for r in relations]
    out += ["", "cost:"]
    if t.flops:
        out.append(f"  flops: {quoted(t.flops)}")
    out += [f"  bytes: {quoted(t.bytes)}", f"  report: {t.rate}", "", "tolerance: {factor: 2, floor_eps: 64, block_rows: 64}"]
    before = "\n".join(out) + "\n"
    controls = []
    for mistake, when in t.controls:
        text = f"  {mistake.name}: {{about: {quoted(mistake.about)}" + (f", when: {quoted(when)}" if when else "") + "}\n"
        controls.append({"name": mistake.name, "about": mistake.about, "serious": mistake.serious, "text": text})
    out = ["", "checks:"]

    def workloads(key, many, indent="  "):
        out.append(f"{indent}{key}:")
        for each in many:
            out.append(f"{indent}  - {workload_text(dims, each)}")

    workloads("smoke", [t.smoke])
    workloads("sweep", t.sweep)
    if t.stress:
        workloads("stress_shapes", t.stress_shapes)
        out.append("  stress:")
        for name, about, fills in t.stress:
            out.append(f"    {name}: {{about: {quoted(about)}, " + ", ".join(f"{k}: {fill_text(f)}" for k, f in fills.items()) + "}")
    if t.edge:
        workloads("edge", t.edge)
    out += ["", "workload_sets:"]
    for name, about, dtype, many in t.sets:
        out += [f"  {name}:", f"    about: {quoted(about)}", f"    dtype: {dtype}"]
        workloads("workloads", many, "    ")
    return {"before": before, "controls": controls, "after": "\n".join(out) + "\n"}


def contender(t, compiled):
    names = ", ".join(f'"{i.name}"' for i in t.inputs)
    head = "torch.compile for each shape" if compiled else "PyTorch, eager"
    made = ('    run = torch.compile(reference.compute, mode="max-autotune-no-cudagraphs", dynamic=False)' if compiled
            else "    run = reference.compute")
    limits = """
from torch._dynamo import config

for limit in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit"):
    if hasattr(config, limit):
        setattr(config, limit, 1 << 20)  # each shape is a compilation of its own
""" if compiled else ""
    return f'''"""{t.name} as the task's reference.py computes it: {head}."""

import importlib.util
import os

import torch
{limits}
_file = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "reference.py")
_spec = importlib.util.spec_from_file_location("cultivar_reference_{t.name}", _file)
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)
INPUTS = [{names}]


def prepare(workload, tensors):
{made}

    def launch(tensors):
        with torch.no_grad():
            result = run(*[tensors[name] for name in INPUTS])
        return (result,) if isinstance(result, torch.Tensor) else tuple(result)

    return launch
'''
