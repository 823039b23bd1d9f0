# SPDX-License-Identifier: Apache-2.0
"""Kernels in the place of modules of a model, written by `cultivar apply`:

    import fast                       # the name of this folder
    fast.enable(model)                # returns how many modules are replaced now
    print(fast.report())              # which way calls went, and why
    fast.disable()                    # the model is what it was

A replaced module keeps its class, parameters and hooks; only its forward is another. A call goes to the kernel if the module is in
evaluation mode, no gradient is needed, and its tensors have sizes, dtypes, device and layout with which the model was measured;
otherwise to the original forward. The first such call of each module computes both and compares them; a kernel that raises, or
gives NaN or infinity where the original gives numbers, is not called for these sizes again, and the original's result is returned.
No tensor is copied for a kernel, and no weight is kept a second time. In torch.compile a replaced module is one operator of the
graph, without a break. What cannot be caught is a kernel that ends the process; kernels were checked before on the sizes that are let through.
"""

import collections
import hashlib
import importlib.util
import inspect
import json
import pathlib
import subprocess

import torch

HERE = pathlib.Path(__file__).resolve().parent
PLAIN = (int, float, bool, str, type(None), torch.dtype)
FAR = 1e-3  # of the root mean square of the original's result: a kernel that differs by more in its first call is wrong
_swaps, _left, _doors, _library = [], {}, {}, []


def facts():
    with open(HERE / "regions.json", encoding="utf-8") as file:
        return json.load(file)


def digest(tensor):
    return hashlib.sha256(tensor.detach().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def traits(module):
    """What tells modules of a class apart, except values of parameters: sizes, settings, and the values of constants."""
    found = []
    for path, each in module.named_modules():
        settings = sorted((k, repr(v)) for k, v in vars(each).items() if isinstance(v, PLAIN) and not k.startswith("_")
                          and k not in ("training", "layer_idx"))
        running = isinstance(each, torch.nn.modules.batchnorm._NormBase)
        constants = [(k, str(b.dtype), tuple(b.shape), "" if running else digest(b)) for k, b in each._buffers.items() if b is not None]
        states = [(k, str(p.dtype), tuple(p.shape)) for k, p in each._parameters.items() if p is not None]
        found.append((path, type(each).__qualname__, each.extra_repr(), settings, constants, states))
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def build(say=print):
    """Builds the kernels for this machine, which needs CMake and a C++ compiler; what is built already is kept."""
    for region in facts()["regions"]:
        folder = HERE / "kernels" / region["name"]
        if not list((folder / "build").glob("libcultivar_*.so")):
            say("building " + region["name"])
            for command in (["cmake", "-S", str(folder), "-B", str(folder / "build")],
                            ["cmake", "--build", str(folder / "build"), "--target", "cultivar_" + region["name"]]):
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                if done.returncode:
                    raise RuntimeError("%s failed:\n%s" % (" ".join(command), done.stdout[-2000:]))


def enable(model, watch=True):
    """Replaces the forwards of the model's modules that were measured; returns how many are replaced now.

    watch: look for NaN and infinity in each result of a kernel, which reads it once. Build the kernels first: build().
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile was given
    modules = dict(model.named_modules())
    for region in facts()["regions"]:
        door = _door(region["name"])
        for path in region["paths"]:
            module = modules.get(path)
            if module is None or type(module).__name__ != region["class"] or traits(module) != region["traits"]:
                _left[path] = "the model has no such module" if module is None else "it is another module than the one that was measured"
            elif not any(swap.module is module for swap in _swaps):
                _left.pop(path, None)
                _swaps.append(_Swap(region, door, path, module, watch))
    return len(_swaps)


def disable():
    """Every model is what it was."""
    while _swaps:
        _swaps.pop().undo()
    _left.clear()


def counters():
    """{path: {way: calls}}; "kernel" is the kernel, every other way the original, by its reason. Calls within a compiled graph
    that the graph sends to the original by itself are not counted."""
    return {swap.path: dict(swap.ways) for swap in _swaps}


def report():
    """Which way the calls went, by region, and what is not replaced."""
    lines = []
    for region in facts()["regions"]:
        swaps = [s for s in _swaps if s.region["name"] == region["name"]]
        ways = sum((s.ways for s in swaps), collections.Counter())
        said = ["%d calls of the kernel" % ways.pop("kernel", 0)] + ["%d of the original: %s" % (n, why) for why, n in ways.most_common()]
        lines.append("%s (%s), %d modules: %s" % (region["name"], region["class"], len(swaps), "; ".join(said)))
        for swap in swaps:
            lines += ["  %s: the kernel is not called for %s: %s" % (swap.path, _text(key), why)
                      for key, why in swap.known.items() if why and not why.startswith(_OTHER)]
    lines += ["%s is as it was: %s" % item for item in _left.items()]
    return "\n".join(lines)


_OTHER = "other sizes"


def _text(key):
    return ", ".join("%s %s" % (str(dtype)[6:], list(shape)) for shape, dtype, _ in key)


def _door(name):
    """The module of the exported kernel that is its operator in PyTorch."""
    if name not in _doors:
        file = HERE / "kernels" / name / "pytorch" / ("cultivar_%s.py" % name)
        spec = importlib.util.spec_from_file_location("%s_kernel_%s" % (__name__.replace(".", "_"), name), file)
        door = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(door)
        door.configure(fallback=None, compile=False)
        _doors[name] = door
    return _doors[name]


class _Swap:
    """One replaced module."""

    def __init__(self, region, door, path, module, watch):
        self.region, self.path, self.module, self.watch = region, path, module, watch
        self.call = getattr(door, region["function"])
        self.explain, self.alignment = door.explain, door.ALIGNMENT
        self.ways = collections.Counter()
        self.known = {}  # by the tensors' sizes, dtypes and device: "" for the kernel, or why it is not called
        self.original = module.forward
        self.own = module.__dict__.get("forward")
        self.names = list(inspect.signature(self.original).parameters)
        self.constants = {n: v["value"] for n, v in region["arguments"].items() if "value" in v}
        self.tensors = [n for n, v in region["arguments"].items() if "shape" in v]
        self.listed = tuple((tuple(v["shape"]), getattr(torch, v["dtype"])) for v in region["arguments"].values() if "shape" in v)
        self.outputs = [(tuple(shape), getattr(torch, dtype)) for shape, dtype in region["results"]]
        self.places = []  # of the kernel's inputs: an index into the tensors of a call, or where a parameter is kept
        for each in region["inputs"]:
            if each["origin"] == "example":
                self.places.append(self.tensors.index(each["path"]))
            else:
                owner, _, key = each["path"].rpartition(".")
                owner = module.get_submodule(owner)
                self.places.append((owner._parameters if key in owner._parameters else owner._buffers, key))
        operator, handle = _register(self)

        def forward(*args, **kwargs):
            tensors, why = self.fits(args, kwargs)
            if torch.compiler.is_compiling():
                if why:
                    return self.original(*args, **kwargs)
                results = operator(tensors, handle)
                return results[0] if self.region["tuple"] is None else tuple(results)
            if why:
                self.ways[why] += 1
                return self.original(*args, **kwargs)
            results = self.run(tensors)
            return results[0] if self.region["tuple"] is None else tuple(results)

        self.forward = forward
        module.forward = forward

    def undo(self):
        if self.module.__dict__.get("forward") is self.forward:
            if self.own is None:
                del self.module.forward
            else:
                self.module.forward = self.own

    def fits(self, args, kwargs):
        """The tensors of a call in order, and why it is for the original ("": it is not). Computes nothing, so that a graph can hold it."""
        if self.module.training:
            return None, "training mode"
        if len(args) > len(self.names):
            return None, "other arguments"
        given = dict(zip(self.names, args))
        given.update(kwargs)
        for name, value in given.items():
            if name not in self.tensors and (name not in self.constants or repr(value) != self.constants[name]):
                return None, "other arguments"
        for name in self.constants:
            if name not in given:
                return None, "other arguments"
        tensors = []
        for name, (shape, dtype) in zip(self.tensors, self.listed):
            tensor = given.get(name)
            if not isinstance(tensor, torch.Tensor) or tuple(tensor.shape) != shape:
                return None, _OTHER
            if tensor.dtype != dtype or tensor.device.type != "cpu":
                return None, "another dtype or device"
            if not tensor.is_contiguous():
                return None, "another layout"
            tensors.append(tensor)
        if torch.is_grad_enabled() and (any(t.requires_grad for t in tensors) or any(p.requires_grad for p in self.module.parameters())):
            return None, "a gradient is needed"
        return tensors, ""

    def run(self, tensors):
        """The results as a list, by the kernel if it is right for such tensors, or else by the original."""
        if any(t.data_ptr() % self.alignment for t in tensors):
            return self.by_original(tensors, "another alignment")
        key = tuple((tuple(t.shape), t.dtype, t.device.type) for t in tensors)
        why = self.known.get(key)
        if why:
            return self.by_original(tensors, why)
        try:
            inputs = [tensors[p] if isinstance(p, int) else p[0][p[1]] for p in self.places]
            if why is None:
                said = self.explain(*inputs)
                if not said.startswith("built in") or "copied" in said:
                    raise RuntimeError(said)
            with torch.no_grad():
                results = self.call(*inputs)
            results = [results] if isinstance(results, torch.Tensor) else list(results)
        except Exception as error:
            self.known[key] = "it raised %s" % " ".join(("%s: %s" % (type(error).__name__, error)).split())[:300]
            return self.by_original(tensors, self.known[key])
        if why is None or (self.watch and not all(_is_finite(r) for r in results)):
            rights = self.by_original(tensors, "compared with the kernel")
            self.known[key] = next(filter(None, map(_difference, results, rights)), "")
            if self.known[key] or why is None:
                return rights
        self.ways["kernel"] += 1
        return results

    def by_original(self, tensors, why):
        self.ways[why] += 1
        results = self.original(**dict(zip(self.tensors, tensors)), **{n: _value(v) for n, v in self.constants.items()})
        return [results] if isinstance(results, torch.Tensor) else list(results)


def _value(text):
    return getattr(torch, text[6:]) if text.startswith("torch.") else __import__("ast").literal_eval(text)


def _is_finite(tensor):
    return bool(torch.isfinite(tensor.sum()))


def _difference(result, right):
    """What is wrong with a kernel's result; empty: nothing."""
    if result.shape != right.shape or result.dtype != right.dtype:
        return "its result is %s %s" % (str(result.dtype)[6:], list(result.shape))
    if not torch.equal(torch.isfinite(result), torch.isfinite(right)):
        return "it gives NaN or infinity where the original gives numbers, or the reverse"
    finite = torch.isfinite(right)
    if not bool(finite.any()):
        return ""
    error = (result - right)[finite].double().square().mean().sqrt()
    size = right[finite].double().square().mean().sqrt()
    return "" if error <= FAR * size else "it differs from the original by %.3g of its root mean square" % float(error / size)


# In a graph: one operator for all regions, which finds the replaced module by its number.
_by_handle = []


def _register(swap):
    name = "cultivar_fast_" + hashlib.sha256(str(HERE).encode()).hexdigest()[:12]
    if not _library:
        library = torch.library.Library(name, "FRAGMENT")
        library.define("run(Tensor[] tensors, int handle) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
        library.impl("run", _run, "CPU")
        torch.library.register_fake(name + "::run", _shapes, lib=library)
        _library.append(library)
    _by_handle.append(swap)
    return getattr(torch.ops, name).run.default, len(_by_handle) - 1


def _run(tensors, handle):
    results = _by_handle[handle].run(tensors)
    return [r.clone() if any(r is t for t in tensors) else r for r in results]  # an operator must not return its inputs


def _shapes(tensors, handle):
    return [tensors[0].new_empty(shape, dtype=dtype) for shape, dtype in _by_handle[handle].outputs]
