# SPDX-License-Identifier: Apache-2.0
"""Kernels in the place of parts of a model, written by `cultivar apply`:

    import fast                       # the name of this folder
    fast.enable(model)                # returns how many modules and functions are replaced now
    print(fast.report())              # which way calls went, and why
    fast.disable()                    # the model is what it was

A replaced module keeps its class, parameters and hooks; only its forward is another, and a copy or a pickle of it is an original. A function of PyTorch, such as
scaled_dot_product_attention, is replaced while the model's modules that call it run; a model of Hugging Face's transformers gets its
attention by that library's own registration. A call goes to the kernel if the module is in
evaluation mode, no gradient is needed, and its tensors have the sizes, dtypes, device and layout with which the model was measured;
otherwise to the original, also if a part of the module was replaced or has a hook. A setting that is altered later, such as an eps, is
not noticed: disable() and enable() again. enable() calls each kernel once in a process of its own: one that crashes or does not end is not used. The
first call of each module computes both ways and compares them; a kernel that raises, or gives NaN or infinity where the original gives
numbers, is not called for these sizes again, and the original's result is returned. On a GPU one later result in 16 is looked at,
without waiting for it: after NaN in it the kernel is not called again, and the report says so. No tensor is copied for a kernel, and no
weight is kept a second time. In torch.compile each is one operator of the graph, without a break; a mask that the graph computes of
sizes alone is read when it is compiled, and no more. While a CUDA graph is captured, only kernels run that were compared before, and that
need not read a mask. What cannot be caught is a kernel that ends the process for values that no check had.
"""

import collections
import hashlib
import importlib.util
import inspect
import json
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import types

import torch

HERE = pathlib.Path(__file__).resolve().parent
PLAIN = (int, float, bool, str, type(None), torch.dtype)
# Of the root mean square of the original's result: a kernel that differs by more in its first call is wrong.
FAR = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 4e-2}
ABSENT = "the model has no such module: enable() is for the whole model as it was imported"
EACH = 16  # on a GPU: of so many calls of a kernel the result of one is looked at
_swaps, _left, _doors, _library = [], {}, {}, []


def facts():
    with open(HERE / "regions.json", encoding="utf-8") as file:
        return json.load(file)


def digest(tensor):
    return hashlib.sha256(tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


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
    """Builds the kernels for this machine, which needs CMake and a C++ compiler (on a GPU CUDA too); what is built already is kept. A
    kernel that cannot be built leaves its part of the model as it was, and enable() says so."""
    for region in facts()["regions"]:
        folder, library = HERE / "kernels" / region["name"], _library_of(region["name"])
        if library and not (folder / "build" / ("lib%s.so" % library)).exists():
            say("building " + region["name"])
            shutil.rmtree(folder / "build", ignore_errors=True)  # of another folder, or what an earlier attempt left
            for command in (["cmake", "-S", str(folder), "-B", str(folder / "build")],
                            ["cmake", "--build", str(folder / "build"), "--target", library]):
                try:
                    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                except OSError as error:
                    say("%s cannot be started (%s): install CMake, or put it into PATH" % (command[0], error.strerror))
                    break
                if done.returncode:
                    say("%s failed:\n%s" % (" ".join(command), done.stdout[-2000:]))
                    break


def _file(name):
    """Of the Python module of an exported kernel."""
    folder = HERE / "kernels" / name / "pytorch"
    return next(f for f in sorted(folder.glob("cultivar_*.py")))


def _library_of(name):
    """The name of its library; empty: it has none."""
    found = re.search(r'_library_file\("lib(\w+)\.so"\)', _file(name).read_text(encoding="utf-8"))
    return found.group(1) if found else ""


def enable(model, watch=True, only=None):
    """Replaces what was measured: forwards of the model's modules, and functions of PyTorch; returns how many are replaced now.

    watch: look for NaN and infinity in each result of a kernel, which reads it once. only: names of regions. Build the kernels first:
    build().
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile was given
    modules = dict(model.named_modules())
    for region in facts()["regions"]:
        if only is not None and region["name"] not in only:
            continue
        why = _trial(region)
        if why or region["function_of"]:
            places = [region["name"]]
        else:
            places = region["paths"]
        for path in places:
            module = modules.get(path)
            if why:
                _left[path] = why
            elif region["function_of"]:
                _left.pop(path, None)
                function = next((s for s in _swaps if s.region["name"] == region["name"]), None) or _Function(region, path, watch)
                function.enter(model, modules)
                if function not in _swaps:
                    _swaps.append(function)
            elif module is None or type(module).__name__ != region["class"] or traits(module) != region["traits"]:
                _left[path] = ABSENT if module is None else "it is another module than the one that was measured"
            elif not any(swap.module is module for swap in _swaps):
                _left.pop(path, None)
                _swaps.append(_Module(region, path, module, watch))
    if any(MASK in swap.tensors for swap in _swaps):
        _know_masks()
    return len(_swaps)


def disable():
    """Every model is what it was."""
    while _swaps:
        _swaps.pop().undo()
    _forget_masks()
    _left.clear()


def counters():
    """{path: {way: calls}}; "kernel" is the kernel, every other way the original, by its reason. Calls within a compiled graph
    that the graph sends to the original by itself are not counted, nor is what a CUDA graph replays."""
    found = {}
    for swap in _swaps:  # of several models the same path
        found.setdefault(swap.path, collections.Counter()).update(swap.ways)
    return {path: dict(ways) for path, ways in found.items()}


def report():
    """Which way the calls went, by region, and what is not replaced."""
    lines = []
    for region in facts()["regions"]:
        swaps = [s for s in _swaps if s.region["name"] == region["name"]]
        for swap in swaps:
            swap.look()
        ways = sum((s.ways for s in swaps), collections.Counter())
        said = ["%d calls of the kernel" % ways.pop("kernel", 0)] + ["%d of the original: %s" % (n, why) for why, n in ways.most_common()]
        lines.append("%s (%s), %d %s%s: %s" % (region["name"], region["class"], len(swaps), "function" if region["function_of"] else "module",
                                               "" if len(swaps) == 1 else "s", "; ".join(said)))
        for swap in swaps:
            lines += ["  %s: the kernel is not called for %s: %s" % (swap.path, _text(key), why) for key, why in swap.known.items() if why]
    lines += ["%s is as it was: %s" % item for item in _left.items()]
    return "\n".join(lines)


_OTHER = "other sizes"


def _text(key):
    return ", ".join("%s %s" % (str(dtype)[6:], list(shape)) for shape, dtype, _ in key)


def _door(name):
    """The module of the exported kernel that is its operator in PyTorch."""
    if name not in _doors:
        spec = importlib.util.spec_from_file_location("%s_kernel_%s" % (__name__.replace(".", "_"), name), _file(name))
        door = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(door)
        door.configure(fallback=None, compile=False)
        _doors[name] = door
    return _doors[name]


def _replaced(region):
    """Of a function of PyTorch: (owner, name, adapter[, what makes its result of the kernel's outputs]), as the kernel's task has it."""
    task = _door(region["name"])._task_in_pytorch()
    return next(each for each in task.replaces() if (each[0].__name__ + "." + each[1]) == region["function_of"])


def _machine(device):
    """What a library that came through a call may need of the machine: it was built for this one's processor, card and PyTorch."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    card = torch.cuda.get_device_name() if device == "cuda" else ""
    return hashlib.sha256(repr((platform.machine(), features, card, torch.__version__)).encode()).hexdigest()[:16]


def _trial(region, seconds=120.0):
    """Why the kernel does not come through a call in a process of its own; empty: it does. Asked once for each build and machine."""
    if not _library_of(region["name"]):
        return ""
    library = HERE / "kernels" / region["name"] / "build" / ("lib%s.so" % _library_of(region["name"]))
    if not library.exists():
        return "its kernel is not built: build() says why"
    stamp = "%s %d %s" % (library.name, library.stat().st_mtime_ns, _machine(region["device"]))
    kept = library.parent / "tried.json"
    try:
        before = json.loads(kept.read_text())
        if before["stamp"] == stamp:
            return before["why"]
    except (OSError, ValueError, KeyError):
        pass
    try:
        done = subprocess.run([sys.executable, str(HERE / "__init__.py"), region["name"]], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds)
        why = "" if done.returncode == 0 else "a call in a process of its own ended with %s: %s" % (
            done.returncode, " ".join(done.stdout.split())[-200:])
    except subprocess.TimeoutExpired:
        why = "a call in a process of its own did not end within %g s" % seconds
    try:
        kept.write_text(json.dumps({"stamp": stamp, "why": why}))
    except OSError:
        pass  # a folder that is not ours: tried again next time
    return why


def _try(name):
    """What the process of a trial does."""
    region = next(r for r in facts()["regions"] if r["name"] == name)
    device, drawn = region["device"], example(region)
    constants = {n: _value(v["value"]) for n, v in region["arguments"].items() if "value" in v}
    if region["function_of"]:
        given, numbers = _replaced(region)[2](**drawn, **constants)
    else:
        states = {n: torch.rand(shape).to(getattr(torch, dtype)).to(device) for n, (shape, dtype) in region["states"].items()}
        given, numbers = [(drawn if i["origin"] == "example" else states)[i["path"]] for i in region["inputs"]], {}
    getattr(_door(name), region["call"])(*given, **numbers)
    if device == "cuda":
        torch.cuda.synchronize()


def example(region):
    """Tensors of a call, by name: drawn, but for whole numbers, which are 0, and a mask, which is only causal."""
    return {name: _drawn(region, name) for name, each in region["arguments"].items() if "shape" in each}


def _drawn(region, name):
    each = region["arguments"][name]
    shape, dtype = each["shape"], getattr(torch, each["dtype"])
    if name == MASK:
        within = torch.ones(shape, dtype=torch.bool).tril(shape[-1] - shape[-2])
        tensor = within if dtype == torch.bool else torch.zeros(shape).masked_fill(~within, float("-inf"))
    else:
        tensor = torch.randn(shape) if dtype.is_floating_point else torch.zeros(shape)
    return torch.empty_strided(shape, each["stride"], dtype=dtype, device=region["device"]).copy_(tensor)


class _Swap:
    """A place where a kernel may be called, with the original beside it."""

    def __init__(self, region, path, watch, original):
        door = _door(region["name"])
        self.region, self.path, self.watch, self.original = region, path, watch, original
        self.call, self.explain, self.alignment = getattr(door, region["call"]), door.explain, door.ALIGNMENT
        self.ways = collections.Counter()
        self.known = {}  # by the tensors' sizes, dtypes and device: "" for the kernel, or why it is not called
        signature = inspect.signature(self.adapter if region["function_of"] else original).parameters
        self.names = list(signature)
        self.defaults = {n: repr(p.default) for n, p in signature.items()} if region["function_of"] else {}
        self.constants = {n: v["value"] for n, v in region["arguments"].items() if "value" in v}
        self.tensors = [n for n, v in region["arguments"].items() if "shape" in v]
        self.listed = [(tuple(v["shape"]), getattr(torch, v["dtype"]), tuple(v["stride"]))
                       for v in region["arguments"].values() if "shape" in v]
        self.outputs = [(tuple(shape), getattr(torch, dtype), tuple(stride)) for shape, dtype, stride in region["results"]]
        self.single = region["tuple"] is None
        self.pending = None  # on a GPU: (whether a result was not finite, as a tensor; the key of the call)
        self.operator, self.handle = _register(self)

    def forward(self, *args, **kwargs):
        tensors, why = self.fits(args, kwargs)
        if torch.compiler.is_compiling():
            if why:
                return self.original(*args, **kwargs)
            results = self.operator(tensors, self.handle)
        elif why:
            self.ways[why] += 1
            return self.original(*args, **kwargs)
        else:
            results = self.run(tensors)
        return results[0] if self.single else tuple(results)

    def fits(self, args, kwargs):
        """The tensors of a call in order, and why it is for the original ("": it is not). Computes nothing, so that a graph can hold it."""
        why = "autocast" if torch.is_autocast_enabled(self.region["device"]) else self.altered()
        if why:
            return None, why
        if len(args) > len(self.names):
            return None, "other arguments"
        given = dict(zip(self.names, args))
        given.update(kwargs)
        for name, value in given.items():
            if name not in self.tensors and repr(value) != self.constants.get(name, self.defaults.get(name)):
                return None, "other arguments"
        for name in self.constants:
            if name not in given and self.constants[name] != self.defaults.get(name):
                return None, "other arguments"
        tensors = []
        for name, (shape, dtype, stride) in zip(self.tensors, self.listed):
            tensor = given.get(name)
            if not isinstance(tensor, torch.Tensor) or tuple(tensor.shape) != shape:
                return None, _OTHER
            if tensor.dtype != dtype or tensor.device.type != self.region["device"]:
                return None, "another dtype or device"
            if any(size > 1 and one != other for size, one, other in zip(shape, tensor.stride(), stride)):
                return None, "another layout"
            tensors.append(tensor)
        if torch.is_grad_enabled() and (any(t.requires_grad for t in tensors) or any(p.requires_grad for p in self.parameters())):
            return None, "a gradient is needed"
        return tensors, ""

    def run(self, tensors, known=False):
        """The results as a list, by the kernel if it is right for such tensors, or else by the original. `known`: they are without MASK."""
        key = tuple((tuple(t.shape), t.dtype, t.device.type) for t in tensors)
        captured = tensors[0].is_cuda and torch.cuda.is_current_stream_capturing()
        if not captured:
            self.look()
        why = self.known.get(key)
        if captured and why is None:
            return self.by_original(tensors, known, "a CUDA graph was captured before the kernel was compared")
        if why:
            return self.by_original(tensors, known, why)
        try:
            given = self.given(tensors, captured, known)
            if given is None:
                return self.by_original(tensors, known, "not what the kernel computes, by the values of its arguments")
            inputs, numbers = given
            if any(t.data_ptr() % self.alignment for t in inputs):
                return self.by_original(tensors, known, "another alignment")
            if why is None:
                said = self.explain(*inputs, **numbers)
                if not said.startswith("built in") or "copied" in said:
                    raise RuntimeError(said)
            with torch.no_grad():
                results = self.made(self.call(*inputs, **numbers))
        except Exception as error:
            self.known[key] = "it raised %s" % " ".join(("%s: %s" % (type(error).__name__, error)).split())[:300]
            return self.by_original(tensors, known, self.known[key])
        wrong = False
        if why is not None and self.watch and not captured:
            if tensors[0].is_cuda:
                if self.ways["kernel"] % EACH == 0 and not self.pending:
                    bad = ~torch.stack([torch.isfinite(r.sum(dtype=torch.float32)) for r in results]).all()
                    self.pending = (bad, key, torch.cuda.Event())
                    self.pending[2].record()
            else:
                wrong = not all(bool(torch.isfinite(r.sum(dtype=torch.float32))) for r in results)
        if why is None or wrong:
            rights = self.by_original(tensors, known, "compared with the kernel")
            self.known[key] = next(filter(None, map(_difference, results, rights)), "")
            if self.known[key] or why is None:
                return rights
        self.ways["kernel"] += 1
        return results

    def look(self):
        """On a GPU: what became of earlier results, as far as that is known without waiting."""
        if self.pending and self.pending[2].query():
            bad, key, _ = self.pending
            self.pending = None
            if bool(bad):
                self.known[key] = "a result held NaN or infinity, or a sum beyond the range of f32"

    def by_original(self, tensors, known, why):
        self.ways[why] += 1
        given = self.named(tensors, known)
        if known:
            given[MASK] = _drawn(self.region, MASK)
        results = self.original(**given, **{n: _value(v) for n, v in self.constants.items()})
        return [results] if isinstance(results, torch.Tensor) else list(results)

    def named(self, tensors, known):
        """The tensors of a call by the names of their arguments."""
        return dict(zip([n for n in self.tensors if not (known and n == MASK)], tensors))

    def without_mask(self, tensors):
        """The arguments of the operator in a graph for a call whose mask is that of the profile."""
        return [t for n, t in zip(self.tensors, tensors) if n != MASK], self.handle + KNOWN

    def laid_out(self, tensors, known):
        """For the operator of a graph: the results in memory of their own, in the layout that the graph expects."""
        results = self.run(tensors, known)
        for k, (result, (shape, dtype, stride)) in enumerate(zip(results, self.outputs)):
            if any(result is t for t in tensors) or any(s > 1 and a != b for s, a, b in zip(shape, result.stride(), stride)):
                results[k] = torch.empty_strided(shape, stride, dtype=dtype, device=result.device).copy_(result)
        return results


class _Place:
    """A module with another forward. A copy of the module, or what a pickle makes of it, computes by its own class and parameters."""

    def __init__(self, module, replacement):
        self.module = module
        self.own = own = module.__dict__.get("forward")

        def forward(each, *args, **kwargs):
            if each is module:
                return replacement(*args, **kwargs)
            if own is None or isinstance(own, types.MethodType):
                return (type(each).forward if own is None else own.__func__)(each, *args, **kwargs)
            return own(*args, **kwargs)

        self.door = types.MethodType(forward, module)  # copies are bound to the copy, and pickled as its "forward"
        module.forward = self.door

    def undo(self):
        if self.module.__dict__.get("forward") is self.door:
            if self.own is None:
                del self.module.forward
            else:
                self.module.forward = self.own


class _Module(_Swap):
    """A module whose forward is replaced."""

    def __init__(self, region, path, module, watch):
        super().__init__(region, path, watch, module.forward)
        self.module = module
        self.parts = [(each._modules, *part) for each in module.modules() for part in each._modules.items() if part[1] is not None]
        self.places = []  # of the kernel's inputs: an index into the tensors of a call, or where a parameter is kept
        for each in region["inputs"]:
            if each["origin"] == "example":
                self.places.append(self.tensors.index(each["path"]))
            else:
                owner, _, key = each["path"].rpartition(".")
                owner = module.get_submodule(owner)
                self.places.append((owner._parameters if key in owner._parameters else owner._buffers, key))
        self.undo = _Place(module, lambda *args, **kwargs: self.forward(*args, **kwargs)).undo

    def altered(self):
        """Why the module is not what was measured now; empty: it is."""
        if self.module.training:
            return "training mode"
        for among, name, part in self.parts:
            if among.get(name) is not part:
                return "a part of it was replaced"
            if part.training:
                return "training mode"
            if part._forward_hooks or part._forward_pre_hooks:
                return "a part of it has a hook"
        return ""

    def parameters(self):
        return self.module.parameters()

    def given(self, tensors, captured, known):
        return [tensors[p] if isinstance(p, int) else p[0][p[1]] for p in self.places], {}

    def made(self, results):
        return [results] if isinstance(results, torch.Tensor) else list(results)


class _Function(_Swap):
    """A function of PyTorch that is replaced while those modules of the model run that call it; other callers get the original.

    A model of Hugging Face's transformers that takes its attention from the library's table gets an entry of its own there instead."""

    module = None

    def __init__(self, region, path, watch):
        self.owner, self.name, self.adapter, *rest = _replaced(region)
        self.turned = rest[0] if rest else None
        super().__init__(region, path, watch, getattr(self.owner, self.name))
        self.depth = [0]  # how many of the callers run now
        self.door = lambda *args, **kwargs: (self.forward if self.depth[0] else self.original)(*args, **kwargs)
        setattr(self.owner, self.name, self.door)
        self.callers, self.registered = [], []

    def enter(self, model, modules):
        """Of a model: those that call the function get the kernel."""
        if any(model is other for other in self.registered) or self._register(model):
            return
        for place in dict.fromkeys(p.rpartition(".")[0] for p in self.region["paths"]):
            if place not in modules:
                _left[place] = ABSENT
            elif not any(caller.module is modules[place] for caller in self.callers):
                self._wrap(modules[place])

    def _wrap(self, module):
        original = module.forward

        def forward(*args, **kwargs):
            self.depth[0] += 1
            try:
                return original(*args, **kwargs)
            finally:
                self.depth[0] -= 1

        self.callers.append(_Place(module, forward))

    def _register(self, model):
        """Whether the model's attention is that of an entry in the table of transformers now."""
        if self.name != "scaled_dot_product_attention" or not hasattr(model, "set_attn_implementation") or (
                getattr(model.config, "_attn_implementation", None) != "sdpa"):
            return False
        try:
            from transformers import AttentionInterface
            from transformers.integrations.sdpa_attention import sdpa_attention_forward
            from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
        except ImportError:  # an older version
            return False

        def attention(*args, **kwargs):
            self.depth[0] += 1
            try:
                return sdpa_attention_forward(*args, **kwargs)
            finally:
                self.depth[0] -= 1

        name = "cultivar_" + hashlib.sha256(str(HERE).encode()).hexdigest()[:12]
        AttentionInterface.register(name, attention)
        AttentionMaskInterface.register(name, sdpa_mask)
        model.set_attn_implementation(name)
        self.registered.append(model)
        return True

    def undo(self):
        for model in self.registered:
            model.set_attn_implementation("sdpa")
        if getattr(self.owner, self.name) is self.door:
            setattr(self.owner, self.name, self.original)
        for caller in reversed(self.callers):
            caller.undo()

    def altered(self):
        return ""

    def parameters(self):
        return ()

    def given(self, tensors, captured, known):
        arguments = self.named(tensors, known)
        if captured and MASK in arguments:
            return None  # a graph must not wait for what the mask holds
        found = self.adapter(**arguments, **{n: _value(v) for n, v in self.constants.items()})
        return (found[0], self.region["match"]["numbers"]) if known and found else found

    def has_its_mask(self, node):
        """Whether what a graph computes there is known now, and the mask of the profile, as far as the kernel can tell."""
        others = {n: torch.empty(v["shape"], dtype=getattr(torch, v["dtype"]), device="meta")
                  for n, v in self.region["arguments"].items() if "shape" in v and n != MASK}
        try:
            mask = _value_of(node)
            found = None if mask is None else self.adapter(**others, **{MASK: mask}, **{n: _value(v) for n, v in self.constants.items()})
        except Exception:  # the graph computes it then, in its own way
            found = None
        return found is not None and found[1] == self.region["match"]["numbers"]

    def made(self, results):
        if self.turned:
            results = self.turned((results,) if isinstance(results, torch.Tensor) else results)
        return [results] if isinstance(results, torch.Tensor) else list(results)


def _value(text):
    return getattr(torch, text[6:]) if text.startswith("torch.") else __import__("ast").literal_eval(text)


def _difference(result, right):
    """What is wrong with a kernel's result; empty: nothing."""
    if result.shape != right.shape or result.dtype != right.dtype:
        return "its result is %s %s" % (str(result.dtype)[6:], list(result.shape))
    if not torch.equal(torch.isfinite(result), torch.isfinite(right)):
        return "it gives NaN or infinity where the original gives numbers, or the reverse"
    finite = torch.isfinite(right)
    if not bool(finite.any()):
        return ""
    error = (result.double() - right.double())[finite].square().mean().sqrt()
    size = right[finite].double().square().mean().sqrt()
    return "" if error <= FAR[right.dtype] * size else "it differs from the original by %.3g of its root mean square" % float(error / size)


# In a graph: one operator for all regions, which finds the replaced part by its number.
_by_handle = []
MASK = "attn_mask"  # an argument that says by its values whether the kernel computes the call, and that the kernel does not get
KNOWN = 1 << 20  # in addition to the number: without MASK, whose values are those of the profile


def _namespace():
    return "cultivar_fast_" + hashlib.sha256(str(HERE).encode()).hexdigest()[:12]


def _register(swap):
    name = _namespace()
    if not _library:
        library = torch.library.Library(name, "FRAGMENT")
        library.define("run(Tensor[] tensors, int handle) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
        for key in ("CPU", "CUDA"):
            library.impl("run", lambda tensors, handle: _by_handle[handle % KNOWN].laid_out(tensors, handle >= KNOWN), key)
        torch.library.register_fake(name + "::run", _shapes, lib=library)
        _library.append(library)
    _by_handle.append(swap)
    return getattr(torch.ops, name).run.default, len(_by_handle) - 1


def _shapes(tensors, handle):
    return [torch.empty_strided(shape, stride, dtype=dtype, device=tensors[0].device)
            for shape, dtype, stride in _by_handle[handle % KNOWN].outputs]


def _know_masks():
    """For Inductor's graphs: a mask that a graph computes of nothing but sizes is read once, when the graph is compiled. If it is that of the
    profile, the kernel is called without it; the graph does not compute it then, and nobody waits for it."""
    from torch._inductor import config
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class KnownMasks(CustomGraphPass):
        package, before = HERE, config.post_grad_custom_pre_pass

        def __call__(self, graph):
            if self.before:
                self.before(graph)
            for node in list(graph.nodes):
                if node.op == "call_function" and getattr(node.target, "namespace", "") == _namespace() and node.args[1] < KNOWN:
                    swap = _by_handle[node.args[1]]
                    if MASK in swap.tensors and swap.has_its_mask(swap.named(node.args[0], False)[MASK]):
                        node.args = swap.without_mask(node.args[0])
            graph.eliminate_dead_code()

        def uuid(self):  # what is cached holds numbers of regions
            before = self.before.uuid() if hasattr(self.before, "uuid") else None
            regions = tuple((s.region["name"], repr(s.region["match"])) for s in _by_handle)
            return (str(HERE), regions, before) if before or not self.before else None

    if getattr(config.post_grad_custom_pre_pass, "package", None) != HERE:
        config.post_grad_custom_pre_pass = KnownMasks()


def _forget_masks():
    config = getattr(sys.modules.get("torch._inductor"), "config", None)
    if config and getattr(config.post_grad_custom_pre_pass, "package", None) == HERE:
        config.post_grad_custom_pre_pass = config.post_grad_custom_pre_pass.before


def _value_of(node):
    """What a graph computes there, if nothing that is given to the graph is needed for it; None: it cannot be known."""
    needed, left = set(), [node]
    while left:
        each = left.pop()
        if each in needed:
            continue
        if each.op != "call_function" or torch.Tag.nondeterministic_seeded in getattr(each.target, "tags", ()):
            return None
        needed.add(each)
        left += each.all_input_nodes
    values = {}
    with torch.utils._python_dispatch._disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        for each in node.graph.nodes:
            if each in needed:
                args, kwargs = torch.fx.map_arg((each.args, each.kwargs), values.__getitem__)
                values[each] = each.target(*args, **kwargs)
        return values[node]


if __name__ == "__main__":
    _try(sys.argv[1])
