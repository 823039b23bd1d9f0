"""Scaled dot-product attention, forward: O = softmax(scale Q K^T + mask) V and the log-sum-exp (natural) of each row; a row that sees no key gives O = 0 and LSE = -inf

Kernel 'attention_even_sections' (f6efb97d2075), found and exported by Cultivar, for bf16 tensors on cuda. Forward only, unless
register_backward(module) is given the module of another export that computes the gradients.

    from cultivar_attention_forward import attention_forward
    o, lse = attention_forward(q, k, v, causal=True)

Specialized for: D128_causal1_paired0_drawn1, D128_causal1_paired0_drawn0, D128_causal0_paired1_drawn0, D128_causal1_paired1_drawn1, D64_causal0_paired1_drawn0, D64_causal1_paired0_drawn1, D64_causal1_paired1_drawn1, D256_causal0_paired1_drawn0, D256_causal1_paired0_drawn1, D128_causal0_paired0_drawn0, D256_causal0_paired0_drawn0, D64_causal0_paired0_drawn0, D64_causal1_paired0_drawn0, D256_causal1_paired0_drawn0. Other shapes raise Unsupported with the reason. Inputs should be finite: ../build/verify
says how NaN spreads.

The module loads libattention_everywhere_f6efb97d.so (from this folder, or from ../build, where CMake writes it) through ctypes. It needs no
compiler and works with PyTorch 1.13 or newer. The operator is torch.ops.cultivar_f6efb97d2075.attention_forward; it works in
torch.compile, on meta tensors and in CUDA graphs.

Each kernel has its own namespace, so that several exports can be used in one process. Exports of the same task have the same
file names: import all but the first by path (importlib.util.spec_from_file_location). A second copy of the same kernel gets a
namespace with a number appended. importlib.reload keeps the operator.
"""

import collections
import contextlib
import ctypes
import functools
import itertools
import operator
import os
import pathlib
import threading

import torch

TARGET = "cuda"
ALIGNMENT = 256  # bytes; a tensor with another alignment is copied
MOST_HANDLES = 128  # shapes that are kept prepared
# In the task's order: name, whether it is an output, dtype, dimensions (outermost first).
TENSORS = (
    ("q", False, "bf16", ("B", "S_q", "H", "D",)),
    ("k", False, "bf16", ("B", "S_kv", "H_kv", "D",)),
    ("v", False, "bf16", ("B", "S_kv", "H_kv", "D",)),
    ("o", True, "bf16", ("B", "S_q", "H", "D",)),
    ("lse", True, "f32", ("B", "H", "S_q",)),
)
# Dimensions that no input determines, and parameters: name, and whether it is a dimension.
NUMBERS = (("causal", False), ("scale", False), ("window", False), ("softcap", False),)
PYTHON_NUMBERS = ("causal", "scale", "window", "softcap",)  # the same names as the operator's keywords
_DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
           "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}
_DTYPES.update((short, getattr(torch, "uint" + short[1:], None)) for short in ("u64", "u32", "u16"))
_DTYPES.update((short, getattr(torch, name, None)) for short, name in (("e4m3", "float8_e4m3fn"), ("e5m2", "float8_e5m2")))
INPUTS = tuple((name, _DTYPES[dtype], shape) for name, is_output, dtype, shape in TENSORS if not is_output)
OUTPUTS = tuple((name, _DTYPES[dtype], shape) for name, is_output, dtype, shape in TENSORS if is_output)


class Unsupported(ValueError):
    """The kernel does not support this shape or these parameters."""


def attention_forward(q, k, v, *, causal=None, scale=None, window=None, softcap=None):
    """Scaled dot-product attention, forward: O = softmax(scale Q K^T + mask) V and the log-sum-exp (natural) of each row; a row that sees no key gives O = 0 and LSE = -inf

    q: [B, S_q, H, D], bf16
    k: [B, S_kv, H_kv, D], bf16
    v: [B, S_kv, H_kv, D], bf16
    Returns o: [B, S_q, H, D], bf16
    Returns lse: [B, H, S_q], f32
    causal: query i sees the keys j <= i + S_kv - S_q (bottom-right aligned) (default: 0)
    scale: factor applied to the logits (default: 1 / sqrt(D))
    window: 0: off; otherwise query i sees only the keys j with |i + S_kv - S_q - j| < window: with the mask the last `window` keys, else as many on both sides (default: 0)
    softcap: 0: off; otherwise the logit x becomes softcap * tanh(x / softcap), before the mask (default: 0)

    Inputs that are not contiguous are copied. Outputs are new and contiguous.
    """
    return _call((q, k, v,), (causal, scale, window, softcap,))


def _call(tensors, numbers):
    key = None if _compiling() else _key(tensors, numbers)
    if key is not None:
        results = _direct(key, tensors)
        if results is not None:
            return results
    for (name, _, _), tensor in zip(INPUTS, tensors):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError("attention_forward: %s must be a tensor, not %s" % (name, type(tensor).__name__))
        if tensor.device.type not in (TARGET, "meta"):
            raise ValueError("attention_forward: %s is on %s, but this kernel is for %s" % (name, tensor.device, TARGET))
        if tensor.requires_grad and torch.is_grad_enabled() and name not in _gradients:
            raise RuntimeError("attention_forward: %s requires a gradient, which this kernel does not compute: "
                               "use torch.no_grad() or %s.detach()%s" % (
                                   name, name, "" if _gradients else ", or see register_backward"))
    if tensors[0].device.type == "meta":  # PyTorch 1.13 cannot dispatch these completely
        return _meta(*tensors, **_named(numbers))
    results = _operator(*tensors, **_named(numbers))
    if key is not None:
        _remember(key, tensors, numbers)
    return results


# The direct way. PyTorch's dispatcher costs several times what the rest of a call does, so a call like an earlier one goes
# around it, unless PyTorch has something to do in between: a mode, a transformation, a trace or a gradient.
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)
_modes = tuple(getattr(torch._C, name, None) for name in (
    "_len_torch_function_stack", "_len_torch_dispatch_stack", "_get_tracing_state"))
# PyTorch's allocator without a tensor around the memory, which would take as long as the launch.
_take, _give = (getattr(torch._C, "_cuda_cudaCachingAllocator_raw_" + name, None) for name in ("alloc", "delete"))
_traits = operator.attrgetter("shape", "dtype", "device", "requires_grad")
_is_possible = None not in _modes and (TARGET != "cuda" or None not in (_take, _give))
# What calls need that were made before, by _key(). Guarded by _lock.
_known = dict()
_Known = collections.namedtuple("_Known", "handle device workspace_bytes data place inputs outputs")


def _key(tensors, numbers):
    """What the calls have in common that differ only in their tensors' values; None: not the direct way."""
    if not _is_possible or _modes[0]() or _modes[1]() or _modes[2]() is not None or not _PLAIN.issuperset(map(type, tensors)):
        return None
    return (torch.is_grad_enabled(), torch.get_num_threads(), numbers, *map(type, numbers), *map(_traits, tensors))


def _direct(key, tensors):
    """The results of a call like an earlier one; None if there was none, or a tensor must be copied first."""
    with _lock:
        known = _known.get(key)
        if known is None:
            return None
        handle, device, workspace_bytes, data, place_of_data, inputs, outputs = known
        try:
            for at, tensor in zip(inputs, tensors):
                data[at] = place = tensor.data_ptr()
                if place % ALIGNMENT or not place or not tensor.is_contiguous() or tensor.is_neg():
                    return None
        except RuntimeError:  # a tensor without memory of its own, for example inside of a transformation
            return None
        stream = workspace = None
        if TARGET == "cuda":
            if torch._C._cuda_getDevice() != device.index:
                return None
            stream = torch._C._cuda_getCurrentRawStream(device.index)
        results = [make() for _, make in outputs]
        for (at, _), tensor in zip(outputs, results):
            data[at] = place = tensor.data_ptr()
            if place % ALIGNMENT:
                return None
        if workspace_bytes:
            workspace = _take(workspace_bytes, stream)
        try:
            if _library.cultivar_export_launch(handle, place_of_data, workspace, stream):
                raise RuntimeError(_last_error())
        finally:
            if workspace:  # for later work of the same stream
                _give(workspace)
    return _result(results)


def _remember(key, tensors, numbers):
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return
    sizes, device = _dimensions(tensors, numbers), tensors[0].device
    with _lock, _on(device):
        if key in _known:
            return
        handle, workspace_bytes = _handle(device, sizes, numbers)
        inputs, outputs = [], []
        for at, (_, is_output, dtype, shape) in enumerate(TENSORS):
            if is_output:
                # empty_like is faster than empty; one element is enough of a pattern.
                pattern = torch.empty([], dtype=_DTYPES[dtype], device=device).expand([sizes[d] for d in shape])
                outputs.append((at, functools.partial(torch.empty_like, pattern, memory_format=torch.contiguous_format)))
            else:
                inputs.append(at)
        if len(_known) >= MOST_HANDLES:
            _known.clear()
        data = (ctypes.c_void_p * len(TENSORS))()
        _known[key] = _Known(handle, device, workspace_bytes, data, ctypes.addressof(data), inputs, outputs)


def _on(device):
    return torch.cuda.device(device) if TARGET == "cuda" else contextlib.nullcontext()


# The inputs of which the registered backward module computes gradients: their index among its outputs.
_gradients = dict()
_backward = None


def register_backward(module):
    """Makes the operator differentiable: `module` is that of another export, whose operator computes the gradients.

    It is told by names: its inputs are inputs and outputs of this operator and, for an output y whose gradient it needs, dy
    or grad_y; of an input x it gives the gradient as dx or grad_x. Numbers of both operators have the same values; one that only this
    operator has, such as a window, must be 0. An output whose gradient it does not take (lse of attention) does not require one.
    """
    global _backward, _gradients
    inputs, outputs = ([name for name, _, _ in each] for each in (INPUTS, OUTPUTS))
    for name, _, _ in module.INPUTS:
        if name not in inputs + outputs and _of_gradient(name) not in outputs:
            raise ValueError("attention_forward: the backward operator needs %s, which is neither an input or output of this operator "
                             "nor the gradient of an output" % name)
    found = {_of_gradient(name): at for at, (name, _, _) in enumerate(module.OUTPUTS) if _of_gradient(name) in inputs}
    if not found:
        raise ValueError("attention_forward: no output of the backward operator is the gradient of an input (%s)" % ", ".join(inputs))
    for name, _ in module.NUMBERS:
        if name not in dict(NUMBERS):
            raise ValueError("attention_forward: the backward operator needs the number %s, which this operator does not have" % name)
    first = _backward is None
    _backward, _gradients = module, found
    if first:
        _definition.impl("attention_forward", _autograd, "Autograd")


def _of_gradient(name):
    """x for dx and grad_x."""
    return name[5:] if name.startswith("grad_") else name[1:] if name.startswith("d") else None


@contextlib.contextmanager
def _below_autograd():
    guard = torch._C._AutoDispatchBelowAutograd()
    if hasattr(guard, "__enter__"):
        with guard:
            yield
    else:  # before PyTorch 2.1 it is in effect as long as it exists
        try:
            yield
        finally:
            del guard


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, numbers, *tensors):
        unknown = [name for (name, _), value in zip(NUMBERS, numbers) if value and name not in dict(_backward.NUMBERS)]
        if unknown:
            raise ValueError("attention_forward: the backward operator does not know %s, and its gradients would be those without it; leave it at 0"
                             % ", ".join(unknown))
        key = _key(tensors, numbers)  # autograd calls this without gradients
        results = None if key is None else _direct(key, tensors)
        if results is None:
            with _below_autograd():
                results = _operator(*tensors, **_named(numbers))
            if key is not None:
                _remember(key, tensors, numbers)
        outputs = results if isinstance(results, tuple) else (results,)
        wanted = [_of_gradient(name) for name, _, _ in _backward.INPUTS]
        ctx.mark_non_differentiable(*[output for output, (name, _, _) in zip(outputs, OUTPUTS) if name not in wanted])
        ctx.numbers = numbers
        ctx.save_for_backward(*tensors, *outputs)
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *gradients):
        known = dict(zip([name for name, _, _ in INPUTS + OUTPUTS], ctx.saved_tensors))
        gradient_of = dict(zip([name for name, _, _ in OUTPUTS], gradients))
        values = dict(zip([name for name, _ in NUMBERS], ctx.numbers))
        results = _backward._call(
            tuple(known[name] if name in known else gradient_of[_of_gradient(name)] for name, _, _ in _backward.INPUTS),
            tuple(values[name] for name, _ in _backward.NUMBERS))
        results = results if isinstance(results, tuple) else (results,)
        return (None,) + tuple(results[_gradients[name]] if name in _gradients else None for name, _, _ in INPUTS)


def _named(numbers):
    """The numbers by their names in Python."""
    return dict(zip(PYTHON_NUMBERS, numbers))


def _autograd_of(tensors, numbers):
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return _Differentiable.apply(numbers, *tensors)
    with _below_autograd():
        return _operator(*tensors, **_named(numbers))


class _Value(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


class _Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("is_output", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dtype", ctypes.c_char_p), ("extents", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p)]


class _Workload(ctypes.Structure):  # of cultivar_contender.h
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("values", ctypes.POINTER(_Value)),
                ("tensors", ctypes.POINTER(_Tensor)), ("value_count", ctypes.c_uint32),
                ("tensor_count", ctypes.c_uint32), ("threads", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class _Description(ctypes.Structure):
    _fields_ = [("abi", ctypes.c_uint32), ("name", ctypes.c_char_p), ("version", ctypes.c_char_p),
                ("task", ctypes.c_char_p), ("target", ctypes.c_char_p)]


def _library_file(name):
    here = pathlib.Path(__file__).resolve().parent
    for folder in (here, here.parent / "build"):
        if (folder / name).exists():
            return str(folder / name)
    raise ImportError("%s is neither in %s nor in %s; build it first with\n  cmake -S %s -B %s && cmake --build %s" % (
        name, here, here.parent / "build", here.parent, here.parent / "build", here.parent / "build"))


def _load():
    library = ctypes.CDLL(_library_file("libattention_everywhere_f6efb97d.so"))
    library.cultivar_contender_describe.restype = ctypes.POINTER(_Description)
    library.cultivar_contender_last_error.restype = ctypes.c_char_p
    library.cultivar_contender_prepare.argtypes = [ctypes.POINTER(_Workload), ctypes.POINTER(ctypes.c_void_p)]
    library.cultivar_contender_release.argtypes = [ctypes.c_void_p]
    library.cultivar_contender_release.restype = None
    library.cultivar_export_workspace_bytes.argtypes = [ctypes.c_void_p]
    library.cultivar_export_workspace_bytes.restype = ctypes.c_uint64
    library.cultivar_export_launch.argtypes = [ctypes.c_void_p] * 4
    version = library.cultivar_contender_describe().contents.version.decode()
    if version != "attention_even_sections f6efb97d2075, #1 of attention-everywhere":
        raise ImportError("%s belongs to another kernel (%s); build it again" % (library._name, version))
    return library


_library = _load()
_lock = threading.Lock()  # the library supports one call at a time


def _after_fork():  # a thread that held it exists only in the parent
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
# For each device, by threads, dimensions and parameters; most recently used last.
_handles = collections.defaultdict(collections.OrderedDict)


def _dimensions(tensors, numbers):
    """Every dimension by name, from the shapes of the inputs; raises when they are inconsistent."""
    sizes, said_by = dict(), dict()
    for (name, is_dimension), value in zip(NUMBERS, numbers):
        if is_dimension:
            sizes[name], said_by[name] = value, "the argument"
    for (name, dtype, shape), tensor in zip(INPUTS, tensors):
        if tensor.dtype != dtype:
            raise TypeError("attention_forward: %s has the dtype %s, but this kernel takes %s" % (name, tensor.dtype, dtype))
        if tensor.device != tensors[0].device:
            raise ValueError("attention_forward: %s is on %s, but %s is on %s" % (name, tensor.device, INPUTS[0][0], tensors[0].device))
        if tensor.dim() != len(shape):
            raise ValueError("attention_forward: %s must have the dimensions [%s], but its shape is %s" % (
                name, ", ".join(shape), tuple(tensor.shape)))
        for dimension, size in zip(shape, tensor.shape):
            if dimension not in sizes:
                sizes[dimension], said_by[dimension] = size, name
            elif sizes[dimension] != size:
                raise ValueError("attention_forward: the dimension %s is %s in %s, but %s in %s" % (
                    dimension, sizes[dimension], said_by[dimension], size, name))
    return sizes


def _result(outputs):
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


# A task's names for tensors and numbers may shadow any name, so only these functions use them.
def _meta(q, k, v, *, causal=None, scale=None, window=None, softcap=None):
    return _meta_of((q, k, v,), (causal, scale, window, softcap,))


def _cpu(q, k, v, *, causal=None, scale=None, window=None, softcap=None):
    return _launch((q, k, v,), (causal, scale, window, softcap,), None)


def _cuda(q, k, v, *, causal=None, scale=None, window=None, softcap=None):
    return _queue((q, k, v,), (causal, scale, window, softcap,))


def _autograd(q, k, v, *, causal=None, scale=None, window=None, softcap=None):
    return _autograd_of((q, k, v,), (causal, scale, window, softcap,))


def _meta_of(tensors, numbers):
    sizes = _dimensions(tensors, numbers)
    return _result([torch.empty([sizes[d] for d in shape], dtype=dtype, device="meta") for _, dtype, shape in OUTPUTS])


def _ready(name, tensor):
    """The tensor as the kernel needs it: contiguous and aligned."""
    tensor = tensor.contiguous()
    if tensor.data_ptr() % ALIGNMENT:
        tensor = tensor.clone()
    if tensor.data_ptr() % ALIGNMENT:
        raise RuntimeError("attention_forward: %s is not aligned to %d bytes, even after a copy" % (name, ALIGNMENT))
    return tensor


def describe_workload(sizes, numbers, places, threads):
    """A _Workload, and the objects that must outlive it; `places` are the tensors' addresses, or None."""
    values = [(name, float(size)) for name, size in sizes.items()]
    for (name, is_dimension), value in zip(NUMBERS, numbers):
        if not is_dimension and value is not None:
            values.append((name, float(value)))
    tensors = (_Tensor * (len(INPUTS) + len(OUTPUTS)))()
    alive = [tensors]
    for entry, (name, is_output, dtype, shape), place in zip(tensors, TENSORS, places):
        extents = [int(sizes[d]) for d in shape]
        strides = [1] * len(extents)
        for d in range(len(extents) - 2, -1, -1):
            strides[d] = strides[d + 1] * extents[d + 1]
        pair = [(ctypes.c_int64 * len(extents))(*numbers_of) for numbers_of in (extents, strides)]
        alive += pair
        entry.name, entry.is_output, entry.rank, entry.dtype = name.encode(), is_output, len(extents), dtype.encode()
        entry.extents, entry.strides = (ctypes.cast(a, ctypes.POINTER(ctypes.c_int64)) for a in pair)
        entry.data = place
    array = (_Value * len(values))(*[(name.encode(), value) for name, value in values])
    alive.append(array)
    return _Workload(b"a call from PyTorch", b"bf16", array, tensors, len(values), len(tensors), threads, 0), alive


def _handle(device, sizes, numbers):
    handles = _handles[device.index]
    threads = torch.get_num_threads() if TARGET == "cpu" else 0
    key = (threads, tuple(sizes.values()), numbers)
    if key not in handles:
        workload, alive = describe_workload(sizes, numbers, [None] * len(TENSORS), threads)
        handle = ctypes.c_void_p()
        code = _library.cultivar_contender_prepare(ctypes.byref(workload), ctypes.byref(handle))
        del alive
        if code:
            raise (Unsupported if code == 1 else RuntimeError)(_last_error())
        handles[key] = handle, _library.cultivar_export_workspace_bytes(handle)
        if len(handles) > MOST_HANDLES:
            _known.clear()  # one of them may use it
            _library.cultivar_contender_release(handles.popitem(last=False)[1][0])
    handles.move_to_end(key)
    return handles[key]


def _last_error():
    return _library.cultivar_contender_last_error().decode(errors="replace")


def _launch(tensors, numbers, stream):
    sizes = _dimensions(tensors, numbers)
    device = tensors[0].device
    tensors = [_ready(name, tensor) for (name, _, _), tensor in zip(INPUTS, tensors)]
    outputs = [_ready(name, torch.empty([sizes[d] for d in shape], dtype=dtype, device=device))
               for name, dtype, shape in OUTPUTS]
    given, made = iter(tensors), iter(outputs)
    places = [next(made if is_output else given) for _, is_output, _, _ in TENSORS]
    with _lock:
        handle, workspace_bytes = _handle(device, sizes, numbers)
        workspace = torch.empty(workspace_bytes, dtype=torch.uint8, device=device) if workspace_bytes else None
        data = (ctypes.c_void_p * len(places))(*[tensor.data_ptr() for tensor in places])
        if _library.cultivar_export_launch(handle, data, workspace.data_ptr() if workspace_bytes else None, stream):
            raise RuntimeError(_last_error())
    return _result(outputs)


def _queue(tensors, numbers):
    # Launches only queue their work. PyTorch's allocator reuses memory of this stream only in stream order, so nothing
    # needs to be kept alive or waited for here.
    with _on(tensors[0].device):
        return _launch(tensors, numbers, torch.cuda.current_stream().cuda_stream)


def release():
    """Frees everything that is kept prepared; the next call prepares it again.

    CUDA graphs with this operator must not run afterwards. Calling this function is optional: the end of the process frees
    everything.
    """
    with _lock:
        _known.clear()
        for index, handles in _handles.items():
            if TARGET == "cuda":
                torch.cuda.synchronize(index)
            with _on(index):
                while handles:
                    _library.cultivar_contender_release(handles.popitem()[1][0])


def _registered():
    """The operator and its definition, in the first namespace of its name that no other copy of this module uses.

    A registration lasts until the process ends and calls the module's current functions, also after a reload.
    """
    for copy in itertools.count(1):
        name = "cultivar_f6efb97d2075" if copy == 1 else "cultivar_f6efb97d2075_%d" % copy
        namespace = getattr(torch.ops, name)
        kept = vars(namespace).get("_cultivar")
        if kept is None:
            library = torch.library.Library(name, "DEF")
            compiles = getattr(getattr(torch, "Tag", None), "pt2_compliant_tag", None)
            library.define("attention_forward(Tensor q, Tensor k, Tensor v, *, bool? causal=None, float? scale=None, int? window=None, float? softcap=None) -> (Tensor, Tensor)", **({"tags": (compiles,)} if compiles else {}))
            for function, key in ((_cpu if TARGET == "cpu" else _cuda, TARGET.upper()), (_meta, "Meta")):
                library.impl("attention_forward", function, key)
            namespace._cultivar = kept = globals(), library
        if kept[0] is globals():
            return getattr(namespace, "attention_forward"), kept[1]


_operator, _definition = _registered()
