# SPDX-License-Identifier: Apache-2.0
"""Functions of PyTorch that an installed task computes, as its pytorch.py says in replaces(): where a model calls them, and the proof
that the task computes the same."""

import contextlib
import importlib.util
import inspect
import os

import torch

from .refusal import brief

SHORT_EXTENT = 64  # longer dimensions are shorter in the proof


class Known:
    """A function that a task replaces."""

    def __init__(self, task, compute, owner, name, adapter, turned=None):
        self.task, self.compute, self.owner, self.name = task, compute, owner, name
        self.adapter, self.turned = adapter, turned or (lambda results: results[0])
        self.signature = inspect.signature(adapter)
        self.original = getattr(owner, name)

    @property
    def qualified(self):
        return f"{self.owner.__name__}.{self.name}"


class FunctionCall(torch.nn.Module):
    """One call of a function as a module, so that it is a part of the model like others."""

    def __init__(self, known):
        super().__init__()
        self.function_of, self.task = known.qualified, known.task
        self.__dict__["known"] = known

    def forward(self, **arguments):
        return self.known.original(**arguments)


def known_functions(folder):
    """Those of the tasks in a folder."""
    found = []
    for task in sorted(os.listdir(folder)) if folder else []:
        path = os.path.join(folder, task, "pytorch.py")
        if os.path.isfile(path):
            spec = importlib.util.spec_from_file_location(f"pytorch_of_{task}", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            for entry in getattr(module, "replaces", list)():
                found.append(Known(task, module.compute, *entry))
    return found


@contextlib.contextmanager
def watched(model, functions, before, after):
    """Within it `before(path)` and `after(path, module, arguments, result)` are called around each call of a submodule or function;
    a function's path is that of the module that calls it and its name. `arguments`: (args, kwargs)."""
    within, handles, calls = [""], [], {id(known): FunctionCall(known) for known in functions}

    def hooks(path, module):
        def pre(*_):
            within.append(path)
            before(path)

        def post(_, args, kwargs, result):
            after(path, module, (args, kwargs), result)
            within.pop()
        handles.append(module.register_forward_pre_hook(pre, prepend=True))
        handles.append(module.register_forward_hook(post, with_kwargs=True))

    def wrapper(known):
        def call(*args, **kwargs):
            path = (within[-1] + "." if within[-1] else "") + known.name
            before(path)
            result = known.original(*args, **kwargs)
            after(path, calls[id(known)], (args, kwargs), result)
            return result
        return call

    for path, module in model.named_modules():
        if path and type(module).forward is not torch.nn.Module.forward:
            hooks(path, module)
    try:
        for known in functions:
            setattr(known.owner, known.name, wrapper(known))
        yield
    finally:
        for known in functions:
            setattr(known.owner, known.name, known.original)
        for handle in handles:
            handle.remove()


def arguments_of_function(known, args, kwargs):
    """By the names of the adapter's parameters, without those that have their defaults; None: the adapter does not know them."""
    try:
        given = known.signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    return {n: v for n, v in given.items() if isinstance(v, torch.Tensor) or repr(v) != repr(known.signature.parameters[n].default)}


def matched(known, arguments, result, device):
    """({"task", "shapes", "numbers", "dtype"}, strides of the result) or (why the task's kernels cannot take the call, None)."""
    try:
        given = known.adapter(**arguments)
    except Exception as error:
        return f"the task {known.task} does not understand its arguments: {brief(error, 120)}", None
    if given is None:
        return f"the task {known.task} does not compute it with these arguments", None
    tensors, numbers = given
    if len({t.dtype for t in tensors}) != 1:
        return "its tensors have several dtypes", None
    for tensor in tensors:
        if not tensor.is_contiguous():
            return "a tensor is not contiguous in the order of the kernel, which would need a copy", None
    if not isinstance(result, torch.Tensor):
        return "it returns something other than a tensor", None
    try:
        layout = _proof(known, arguments, device)
    except Exception as error:
        return f"no proof that the task {known.task} computes it: {brief(error, 160)}", None
    order = sorted(range(result.dim()), key=lambda d: -layout.stride(d))
    strides, step = [0] * result.dim(), 1
    for d in reversed(order):
        strides[d], step = step, step * result.shape[d]
    facts = {"task": known.task, "shapes": [list(t.shape) for t in tensors], "dtype": str(tensors[0].dtype)[6:],
             "numbers": {n: float(v) if isinstance(v, float) else int(v) for n, v in numbers.items()}}
    return facts, strides


def _proof(known, arguments, device):
    """Raises unless the task and the function agree in f64, on inputs that are drawn now; the task's result. Long dimensions are shorter,
    unless the arguments bind them to each other, such as channels to groups."""
    try:
        return _compared(known, arguments, device, SHORT_EXTENT)
    except Exception:
        return _compared(known, arguments, device, None)


def _compared(known, arguments, device, longest):
    """_proof with dimensions of about `longest` at most; None: those that they have."""
    extents = {}

    def shorter(extent):
        if longest is None or extent <= longest:
            return extent
        return extents.setdefault(extent, longest - 3 * (1 + len(extents)))

    def drawn(value):
        if isinstance(value, torch.Tensor):
            part = value
            for d, extent in enumerate(value.shape):
                part = part.narrow(d, 0, shorter(extent))
            if not value.dtype.is_floating_point:
                return part
            finite = torch.isfinite(part).all()  # a mask has infinities, and keeps its values
            same = part.double()
            return torch.empty_strided(part.shape, part.stride(), dtype=torch.float64, device=device).normal_() if finite and float(
                same.std()) > 0 and value.dim() == max(t.dim() for t in arguments.values() if isinstance(t, torch.Tensor)) and float(
                same.min()) < 0 < float(same.max()) else same
        if isinstance(value, (tuple, list, torch.Size)) and all(isinstance(v, int) for v in value):
            return type(value)(shorter(v) for v in value)
        return value

    for _ in range(2):
        short = {n: drawn(v) for n, v in arguments.items()}
        tensors, numbers = known.adapter(**short)
        outputs = tuple(t.contiguous() for t in known.compute(*tensors, **numbers))  # as a kernel writes them
        got, right = known.turned(outputs), known.original(**short)
        if got.shape != right.shape or not torch.allclose(got, right, rtol=1e-9, atol=1e-9):
            raise ValueError("results differ in f64")
    return got
