"""Checks cultivar_attention_forward.py on this machine: against the task's fp64 oracle (../build/libreference.so) and, if the task has an
implementation in PyTorch (task_in_pytorch.py in this folder), against that.

    python3 pytorch/test_cultivar_attention_forward.py      exit code 0: passed; 1: failed; 77: skipped, with the reason
"""

import concurrent.futures
import contextlib
import ctypes
import importlib.util
import os
import pathlib
import sys
import time

TARGET = "cuda"


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


try:
    import torch
except ImportError as error:
    skip("%s has no PyTorch: %s" % (sys.executable, error))
if TARGET == "cuda" and not torch.cuda.is_available():
    skip("PyTorch %s sees no GPU" % torch.__version__)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
try:
    import cultivar_attention_forward as module
    from cultivar_attention_forward import attention_forward as operator
except ImportError as error:
    sys.exit("FAILED: %s" % error)
try:
    import task_in_pytorch
except ImportError:
    task_in_pytorch = None



class Shape(dict):
    """Dimensions and parameters, and how the inputs of that shape are drawn: kind, a, b, instead, share, axis."""

    def __init__(self, numbers, fills):
        super().__init__(numbers)
        self.fills = fills


MOST_ROWS = 2048
# Dimensions and parameters that the kernel supports, and some that it does not.
SHAPES = [
    Shape({"B": 1, "H": 2, "H_kv": 2, "S_q": 64, "S_kv": 64, "D": 64, "causal": False, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 2, "H_kv": 2, "S_q": 64, "S_kv": 64, "D": 64, "causal": True, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 2, "H_kv": 2, "S_q": 64, "S_kv": 64, "D": 128, "causal": False, "scale": 0.088388347648318433, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 2, "H": 2, "H_kv": 2, "S_q": 128, "S_kv": 128, "D": 64, "causal": False, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 4, "H_kv": 2, "S_q": 192, "S_kv": 192, "D": 64, "causal": True, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 3, "H_kv": 1, "S_q": 256, "S_kv": 256, "D": 64, "causal": False, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 2, "H": 2, "H_kv": 2, "S_q": 320, "S_kv": 320, "D": 64, "causal": True, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 2, "H_kv": 2, "S_q": 64, "S_kv": 512, "D": 64, "causal": False, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 2, "H_kv": 2, "S_q": 128, "S_kv": 384, "D": 64, "causal": True, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 2, "H_kv": 2, "S_q": 256, "S_kv": 256, "D": 128, "causal": False, "scale": 0.088388347648318433, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 4, "H_kv": 1, "S_q": 192, "S_kv": 192, "D": 128, "causal": True, "scale": 0.088388347648318433, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 1, "H_kv": 1, "S_q": 128, "S_kv": 128, "D": 256, "causal": False, "scale": 0.0625, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 2, "H_kv": 1, "S_q": 128, "S_kv": 128, "D": 256, "causal": True, "scale": 0.0625, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 2, "H_kv": 2, "S_q": 127, "S_kv": 127, "D": 64, "causal": False, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 1, "H_kv": 1, "S_q": 127, "S_kv": 127, "D": 64, "causal": True, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 1, "H_kv": 1, "S_q": 1023, "S_kv": 1023, "D": 64, "causal": True, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 1, "H_kv": 1, "S_q": 65, "S_kv": 1537, "D": 64, "causal": False, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 1, "H_kv": 1, "S_q": 3, "S_kv": 4097, "D": 64, "causal": False, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 1, "H_kv": 1, "S_q": 1, "S_kv": 1023, "D": 64, "causal": True, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 1, "H_kv": 1, "S_q": 129, "S_kv": 1, "D": 64, "causal": False, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 3, "H": 1, "H_kv": 1, "S_q": 1, "S_kv": 2, "D": 64, "causal": True, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 2, "H_kv": 1, "S_q": 193, "S_kv": 127, "D": 64, "causal": True, "scale": 0.125, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 1, "H_kv": 1, "S_q": 127, "S_kv": 127, "D": 128, "causal": False, "scale": 0.088388347648318433, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 1, "H_kv": 1, "S_q": 255, "S_kv": 257, "D": 128, "causal": True, "scale": 0.088388347648318433, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 1, "H_kv": 1, "S_q": 127, "S_kv": 127, "D": 256, "causal": False, "scale": 0.0625, "window": 0, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
]
REFUSED = [
    Shape({"B": 1, "H": 2, "H_kv": 2, "S_q": 192, "S_kv": 192, "D": 64, "causal": True, "scale": 0.125, "window": 50, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 4, "H_kv": 2, "S_q": 200, "S_kv": 200, "D": 128, "causal": False, "scale": 0.088388347648318433, "window": 33, "softcap": 0.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
    Shape({"B": 1, "H": 2, "H_kv": 2, "S_q": 128, "S_kv": 128, "D": 64, "causal": False, "scale": 0.125, "window": 0, "softcap": 2.0}, {"q": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "k": ("normal", 0.0, 1.0, 0.0, 0.0, -1), "v": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),
]

reference = ctypes.CDLL(module._library_file("libreference.so"))
reference.cultivar_reference_check.restype = ctypes.c_int64
# void*, because the module's workload class changes when the module is reloaded.
reference.cultivar_reference_check.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_double)]
reference.cultivar_reference_derive.restype = ctypes.c_int64
reference.cultivar_reference_derive.argtypes = [ctypes.c_void_p]
reference.cultivar_reference_last_error.restype = ctypes.c_char_p
generator = torch.Generator().manual_seed(torch.seed() % 2**63)
counts = {"ok": 0, "FAILED": 0}


def check(name, work):
    try:
        verdict, words = "ok", work()
    except Exception as error:
        verdict, words = "FAILED", "%s: %s" % (type(error).__name__, str(error)[:500])
    counts[verdict] += 1
    print("%-7s %-60s %s" % (verdict, name, words or ""), flush=True)


def refuses(kind, words, work):
    try:
        work()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        if missing:
            raise AssertionError("the message lacks %s: %s" % (missing, error))
        return str(error).splitlines()[0]
    raise AssertionError("no exception was raised")


def whole_numbers(kind, a, b, instead, share, axis, size):
    """The values of an index tensor."""
    if axis is None:  # the whole tensor is one line
        return whole_numbers(kind, a, b, instead, share, 0, [torch.Size(size).numel()]).reshape(size)
    if kind == "integers":
        made = torch.randint(int(a), int(b), size, generator=generator)
        return torch.where(torch.rand(size, generator=generator) < share, torch.full_like(made, int(instead)), made)
    axis = axis % len(size)
    if kind == "permutation":
        return int(a) + torch.argsort(torch.rand(size, generator=generator), dim=axis)
    # Running sums from 0 to b in steps of at least a.
    steps = size[axis] - (kind == "offsets")
    size = size[:axis] + [steps + 1] + size[axis + 1:]
    made = torch.randint(0, int(b - a * steps) + 1, size, generator=generator)
    made.select(axis, 0).fill_(0)
    if steps:
        made.select(axis, steps).fill_(int(b - a * steps))
    made = made.sort(dim=axis).values
    made += int(a) * torch.arange(steps + 1).view([-1] + [1] * (len(size) - 1 - axis))
    return made if kind == "offsets" else made.diff(dim=axis)


def drawn(fill, size):
    kind, a, b, instead, share, axis = fill
    if kind == "derived":  # computed from the others when they are known
        return torch.zeros(size, dtype=torch.float64)
    if kind not in ("normal", "uniform"):
        return whole_numbers(kind, a, b, instead, share, axis, size)
    exact = torch.empty(size, dtype=torch.float64)
    return exact.uniform_(a, b, generator=generator) if kind == "uniform" else exact.normal_(a, b, generator=generator)


def inputs_of(shape, device=TARGET):
    made = []
    for name, dtype, dimensions in module.INPUTS:
        exact = drawn(shape.fills[name], [shape[d] for d in dimensions])
        made.append(exact.to(dtype))
    if device != "meta" and any(fill[0] == "derived" for fill in shape.fills.values()):
        workload, alive = described(made, [None] * len(module.OUTPUTS), numbers_of(shape))
        if reference.cultivar_reference_derive(ctypes.byref(workload)) < 0:
            raise RuntimeError(reference.cultivar_reference_last_error().decode())
        del alive
    return [tensor.to(device) for tensor in made]


def numbers_of(shape):
    return {name: shape[name] for name, _ in module.NUMBERS}


def called(inputs, numbers):
    outputs = operator(*inputs, **{PYTHON_NAMES.get(name, name): value for name, value in numbers.items()})
    return outputs if isinstance(outputs, tuple) else (outputs,)


def described(inputs, outputs, numbers):
    """A workload of the reference library with these tensors, in host memory, and the objects that must outlive it."""
    given, made = iter(inputs), iter(outputs)
    tensors = [next(made if is_output else given) for _, is_output, _, _ in module.TENSORS]
    values = tuple(numbers.get(name) for name, _ in module.NUMBERS)
    workload, alive = module.describe_workload(module._dimensions(inputs, values), values,
                                               [None if t is None else t.data_ptr() for t in tensors], 0)
    return workload, (alive, tensors)


def ratio(inputs, outputs, numbers):
    """The outputs' error relative to the task's bound."""
    outputs = [tensor.cpu() for tensor in outputs]
    workload, alive = described([tensor.cpu().contiguous() for tensor in inputs], outputs, numbers)
    ratios = (ctypes.c_double * len(outputs))()
    if reference.cultivar_reference_check(ctypes.byref(workload), MOST_ROWS, ratios) < 0:
        raise RuntimeError(reference.cultivar_reference_last_error().decode())
    del alive
    worst = max(ratios)
    if not worst <= 1:
        raise AssertionError("wrong: the error is %.3g times the task's bound" % worst)
    return "%.2f of the task's bound" % worst


def right(inputs, numbers):
    return ratio(inputs, called(inputs, numbers), numbers)


def beside_pytorch(inputs, numbers):
    """The errors against PyTorch in f64, compared with PyTorch's own errors in the inputs' dtype."""
    outputs = called(inputs, numbers)
    exact = task_in_pytorch.compute(*[t.double() if t.is_floating_point() else t for t in inputs], **numbers)
    try:
        theirs = task_in_pytorch.compute(*inputs, **numbers)
    except RuntimeError as error:
        if "not implemented for" not in str(error):
            raise
        return "skipped: " + str(error).splitlines()[0]
    said = []
    for (name, dtype, _), got, own, want in zip(module.OUTPUTS, outputs, theirs, exact):
        got, own, want = got.double(), own.double(), want.double()
        finite = torch.isfinite(want)
        if not torch.equal(got[~finite], want[~finite]):
            raise AssertionError("%s differs in elements that are not finite" % name)
        if not finite.any():
            continue
        got, own, want = got[finite], own[finite], want[finite]
        size = want.square().mean().sqrt()
        accumulated = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
        floor = max(torch.finfo(dtype).eps if dtype.is_floating_point else 0.0, 64 * accumulated) * size
        error, usual = ((each - want).square().mean().sqrt() for each in (got, own))
        said.append("%s %.2g (PyTorch %.2g)" % (name, error, usual))
        if not error <= 3 * usual + floor:
            raise AssertionError("the RMS error of " + said[-1])
    return "RMS errors: " + ", ".join(said)


def strided(tensor):
    return torch.stack([tensor, tensor], -1)[..., 0]


def displaced(tensor):
    room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    return room[1:].view(tensor.shape).copy_(tensor)


PYTHON_NAMES = {  }

print("PyTorch %s, %s, attention_even_sections f6efb97d2075" % (torch.__version__, torch.cuda.get_device_name() if TARGET == "cuda"
                                            else "%d threads" % torch.get_num_threads()))
for shape in SHAPES:
    numbers, inputs = numbers_of(shape), inputs_of(shape)
    title = " ".join("%s=%.4g" % item for item in shape.items())
    check(title, lambda: right(inputs, numbers))
    if task_in_pytorch is not None:
        check("  compared with PyTorch", lambda: beside_pytorch(inputs, numbers))
for shape in REFUSED:
    title = " ".join("%s=%.4g" % item for item in shape.items())
    check("refuses " + title, lambda: refuses(module.Unsupported, ["attention_forward"],
                                               lambda: called(inputs_of(shape), numbers_of(shape))))

# A shape of medium size: a tensor with one element, for example, is always contiguous.
shape = sorted(SHAPES, key=lambda s: sum(tensor.numel() for tensor in inputs_of(s, "meta")))[len(SHAPES) // 2]
numbers, inputs = numbers_of(shape), inputs_of(shape)
first, first_dtype, _ = module.INPUTS[0]
given_alone = {name: value for name, value in numbers.items() if dict(module.NUMBERS)[name]}
if len(given_alone) < len(numbers) and True:
    check("omitted parameters have their defaults", lambda: right(inputs, given_alone))
check("inputs that are not contiguous", lambda: ratio(inputs, called([strided(t) for t in inputs], numbers), numbers))
check("unaligned inputs", lambda: ratio(inputs, called([displaced(t) for t in inputs], numbers), numbers))
other = torch.float64 if first_dtype != torch.float64 else torch.float32
check("refuses another dtype",
      lambda: refuses(TypeError, [first, str(other)], lambda: called([inputs[0].to(other)] + inputs[1:], numbers)))
check("refuses another rank",
      lambda: refuses(ValueError, [first], lambda: called([inputs[0].unsqueeze(0)] + inputs[1:], numbers)))
shared = [(i, d) for i, (_, _, dimensions) in enumerate(module.INPUTS) for d, dimension in enumerate(dimensions)
          if any(dimension in earlier for _, _, earlier in module.INPUTS[:i])]
if shared:
    i, d = shared[-1]
    longer = list(inputs)
    longer[i] = torch.cat([inputs[i], inputs[i].narrow(d, 0, 1)], d)
    check("refuses inconsistent shapes", lambda: refuses(
        ValueError, [module.INPUTS[i][0], module.INPUTS[i][2][d]], lambda: called(longer, numbers)))
if inputs[0].dim():
    leading = module.INPUTS[0][2][0]
    empty = [tensor.narrow(0, 0, 0) if dimensions[:1] == (leading,) else tensor
             for tensor, (_, _, dimensions) in zip(inputs, module.INPUTS)]
    check("refuses empty tensors",
          lambda: refuses(module.Unsupported, [leading + " is 0"], lambda: called(empty, numbers)))
if inputs[0].is_floating_point():
    check("refuses gradients", lambda: refuses(
        RuntimeError, [first, "gradient"], lambda: called([inputs[0].clone().requires_grad_()] + inputs[1:], numbers)))


def meta():
    outputs = called([t.to("meta") for t in inputs], numbers)
    for (name, dtype, dimensions), output in zip(module.OUTPUTS, outputs):
        assert (output.device.type, output.dtype, list(output.shape)) == ("meta", dtype, [shape[d] for d in dimensions]), name


def compiled():
    """aot_eager needs no compiler, and traces through the meta implementation like every backend."""
    function = torch.compile(lambda *tensors: called(tensors, numbers), backend="aot_eager", fullgraph=True)
    return ratio(inputs, function(*inputs), numbers)


def directly():
    """A call like an earlier one goes around the dispatcher, but not for tensors that are copied and not in a mode."""
    if not module._is_possible:
        return "skipped: this PyTorch does not say whether a mode is active"
    called(inputs, numbers)
    kept, fresh = module._operator, inputs_of(shape)

    def dispatched(*tensors, **named):
        raise AssertionError("the dispatcher was asked")

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    module._operator = dispatched
    try:
        said = ratio(fresh, called(fresh, numbers), numbers)
        for what in ([displaced(t) for t in fresh], None):
            with contextlib.nullcontext() if what else Watch():
                refuses(AssertionError, ["dispatcher"], lambda: called(what or fresh, numbers))
    finally:
        module._operator = kept
    return said


def host_time():
    """Microseconds of the host for a call of the smallest shape, the least of several measurements."""
    small = min(SHAPES, key=lambda s: sum(tensor.numel() for tensor in inputs_of(s, "meta")))
    tensors, values = inputs_of(small), numbers_of(small)
    outputs = called(tensors, values)

    def least(work):
        times = []
        for _ in range(9):
            wait()
            began = time.perf_counter()
            for _ in range(200):
                work()
            times.append((time.perf_counter() - began) / 200 * 1e6)
        return min(times)

    wait = torch.cuda.synchronize if TARGET == "cuda" else lambda: None
    named = {PYTHON_NAMES.get(name, name): value for name, value in values.items()}
    empty = least(lambda: [torch.empty(o.shape, dtype=o.dtype, device=o.device) for o in outputs])
    return "%.1f us, of which %.1f us are torch.empty for the outputs%s" % (
        least(lambda: operator(*tensors, **named)), empty, "" if TARGET == "cuda" else "; the kernel's own work included")


def evicted():
    module.release()
    most, module.MOST_HANDLES = module.MOST_HANDLES, 1
    try:
        for each in (SHAPES[0], SHAPES[-1], SHAPES[0]):
            tensors = inputs_of(each)
            ratio(tensors, called(tensors, numbers_of(each)), numbers_of(each))
            assert [len(handles) for handles in module._handles.values()] == [1]
    finally:
        module.MOST_HANDLES = most
    module.release()
    return right(inputs, numbers)


def reloaded():
    importlib.reload(module)
    return right(inputs, numbers)


def beside_another_copy():
    spec = importlib.util.spec_from_file_location("another_copy", module.__file__)
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    assert copy._operator is not module._operator
    outputs = copy.attention_forward(*inputs, **{PYTHON_NAMES.get(name, name): value for name, value in numbers.items()})
    assert copy._handles, "it called the other copy"
    ratio(inputs, outputs if isinstance(outputs, tuple) else (outputs,), numbers)
    return right(inputs, numbers)


def another_thread():
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        return other.submit(right, inputs, numbers).result()


def streams():
    """Delayed inputs on two streams at once: each call must wait for its own stream, and calls must not share memory."""
    sets, results = [inputs_of(shape) for _ in range(2)], []
    torch.cuda.synchronize()
    for tensors in sets:
        with torch.cuda.stream(torch.cuda.Stream()):
            late = [torch.zeros_like(t) for t in tensors]
            torch.cuda._sleep(50_000_000)
            for to, source in zip(late, tensors):
                to.copy_(source)
            results.append(called(late, numbers))
    torch.cuda.synchronize()
    return ", ".join(ratio(tensors, outputs, numbers) for tensors, outputs in zip(sets, results))


def graph():
    still, stream = [t.clone() for t in inputs], torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        called(still, numbers)
    torch.cuda.current_stream().wait_stream(stream)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        outputs = called(still, numbers)
        again = called(still, numbers)
    said = []
    for _ in range(3):
        fresh = inputs_of(shape)
        for to, source in zip(still, fresh):
            to.copy_(source)
        captured.replay()
        torch.cuda.synchronize()
        said.append(ratio(fresh, outputs, numbers))
        ratio(fresh, again, numbers)
    return said[-1]


def forked():
    called(inputs, numbers)
    child = os.fork()
    if child == 0:
        called(inputs, numbers)
        os._exit(7)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7, "the child failed: status %d" % status
            return
        time.sleep(0.1)
    os.kill(child, 9)
    raise AssertionError("the child did not end within a minute")


check("meta tensors have the outputs' shapes", meta)
if hasattr(torch, "compile"):
    check("torch.compile without graph breaks", compiled)
check("a call like an earlier one is direct", directly)
check("host time of a call", host_time)
check("handles are limited and recreated", evicted)
check("another thread", another_thread)
check("reloaded", reloaded)
check("together with another copy of the module", beside_another_copy)
if TARGET == "cpu":
    check("a forked process", forked)
if TARGET == "cuda":
    check("two streams with delayed inputs", streams)
    check("a CUDA graph, replayed with new inputs", graph)
if counts["FAILED"]:
    sys.exit("FAILED: %d of %d checks" % (counts["FAILED"], sum(counts.values())))
print("passed: %d checks" % counts["ok"])
