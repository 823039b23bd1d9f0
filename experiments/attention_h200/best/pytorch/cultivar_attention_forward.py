"""Scaled dot-product attention, forward: O = softmax(scale Q K^T + mask) V and the log-sum-exp of each row

Kernel 'attention_one_pass' (5d9f33a3ba30), evolved and exported by Cultivar, for bf16 tensors on cuda. Forward only.

    from cultivar_attention_forward import attention_forward
    o, lse = attention_forward(q, k, v, causal=True)

Specialised for: D128_causal0_paired1, D128_causal1_paired1, D128_causal1_paired0, D64_causal0_paired0, D64_causal1_paired0, D128_causal0_paired0, D64_causal0_paired1, D256_causal0_paired0, D256_causal1_paired0, D64_causal1_paired1. What it is not made for raises Unsupported, which says why. Inputs must be finite:
with NaN or infinity among them nothing is promised, not even a NaN.

It loads libattention_h200_5d9f33a3.so (beside this file, or in ../build, where the bundle's CMake puts it) through ctypes: no
compiler is needed here, and any PyTorch from 1.13 on will do. The operator is
torch.ops.cultivar_5d9f33a3ba30.attention_forward; it works in torch.compile, on meta tensors and in CUDA graphs.

The namespace is the kernel's, so that exports of several kernels live side by side; of one task they are files of one name, and
all but the first are imported by path (importlib.util.spec_from_file_location). Another copy of the same kernel gets a namespace
with a number behind it. importlib.reload keeps the operator.
"""

import collections
import contextlib
import ctypes
import itertools
import os
import pathlib
import threading

import torch

TARGET = "cuda"
ALIGNMENT = 256  # bytes; a tensor that begins elsewhere is copied
MOST_HANDLES = 128  # shapes that are kept ready
# In the order of the task: name, whether it is an output, dtype, dimensions (outermost first).
TENSORS = (
    ("q", False, "bf16", ("B", "S_q", "H", "D",)),
    ("k", False, "bf16", ("B", "S_kv", "H_kv", "D",)),
    ("v", False, "bf16", ("B", "S_kv", "H_kv", "D",)),
    ("o", True, "bf16", ("B", "S_q", "H", "D",)),
    ("lse", True, "f32", ("B", "H", "S_q",)),
)
# Dimensions that no input has, and parameters: name, and whether it is a dimension.
NUMBERS = (("causal", False), ("scale", False),)
_DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
           "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}
_DTYPES.update((short, getattr(torch, "uint" + short[1:], None)) for short in ("u64", "u32", "u16"))
INPUTS = tuple((name, _DTYPES[dtype], shape) for name, is_output, dtype, shape in TENSORS if not is_output)
OUTPUTS = tuple((name, _DTYPES[dtype], shape) for name, is_output, dtype, shape in TENSORS if is_output)


class Unsupported(ValueError):
    """The kernel is not made for this shape, or these parameters."""


def attention_forward(q, k, v, *, causal=None, scale=None):
    """Scaled dot-product attention, forward: O = softmax(scale Q K^T + mask) V and the log-sum-exp of each row

    q: [B, S_q, H, D], bf16
    k: [B, S_kv, H_kv, D], bf16
    v: [B, S_kv, H_kv, D], bf16
    Returns o: [B, S_q, H, D], bf16
    Returns lse: [B, H, S_q], f32
    causal: query i sees the keys j <= i + S_kv - S_q (bottom-right aligned) (default: 0)
    scale: what the logits are multiplied by (default: 1 / sqrt(D))

    Inputs need not be contiguous: then they are copied. Outputs are new and contiguous.
    """
    return _call((q, k, v,), {"causal": causal, "scale": scale})


def _call(tensors, numbers):
    for (name, _, _), tensor in zip(INPUTS, tensors):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError("attention_forward: %s must be a tensor, not %s" % (name, type(tensor).__name__))
        if tensor.device.type not in (TARGET, "meta"):
            raise ValueError("attention_forward: %s is on %s, and this kernel is for %s" % (name, tensor.device, TARGET))
        if tensor.requires_grad and torch.is_grad_enabled():
            raise RuntimeError("attention_forward: %s requires a gradient, which this kernel does not compute: "
                               "use torch.no_grad() or %s.detach()" % (name, name))
    if tensors[0].device.type == "meta":  # whose dispatch PyTorch 1.13 lacks a part of
        return _meta(*tensors, **numbers)
    return _operator(*tensors, **numbers)


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
    raise ImportError("%s is neither in %s nor in %s: build it first, with\n  cmake -S %s -B %s && cmake --build %s" % (
        name, here, here.parent / "build", here.parent, here.parent / "build", here.parent / "build"))


def _load():
    library = ctypes.CDLL(_library_file("libattention_h200_5d9f33a3.so"))
    library.cultivar_contender_describe.restype = ctypes.POINTER(_Description)
    library.cultivar_contender_last_error.restype = ctypes.c_char_p
    library.cultivar_contender_prepare.argtypes = [ctypes.POINTER(_Workload), ctypes.POINTER(ctypes.c_void_p)]
    library.cultivar_contender_release.argtypes = [ctypes.c_void_p]
    library.cultivar_contender_release.restype = None
    library.cultivar_export_workspace_bytes.argtypes = [ctypes.c_void_p]
    library.cultivar_export_workspace_bytes.restype = ctypes.c_uint64
    library.cultivar_export_launch.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p,
                                               ctypes.c_void_p]
    version = library.cultivar_contender_describe().contents.version.decode()
    if version != "attention_one_pass 5d9f33a3ba30, #511 of attention-h200":
        raise ImportError("%s is of another kernel (%s): build it again" % (library._name, version))
    return library


_library = _load()
_lock = threading.Lock()  # the library takes one call at a time


def _after_fork():  # whoever held it stayed behind
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
# Of each device by threads, dimensions and parameters; the last used is last.
_handles = collections.defaultdict(collections.OrderedDict)


def _dimensions(tensors, numbers):
    """Every dimension by name, from the shapes of the inputs; raises where these do not fit together."""
    sizes, said_by = dict(), dict()
    for (name, is_dimension), value in zip(NUMBERS, numbers):
        if is_dimension:
            sizes[name], said_by[name] = value, "the argument"
    for (name, dtype, shape), tensor in zip(INPUTS, tensors):
        if tensor.dtype != dtype:
            raise TypeError("attention_forward: %s has the dtype %s, and this kernel takes %s" % (name, tensor.dtype, dtype))
        if tensor.device != tensors[0].device:
            raise ValueError("attention_forward: %s is on %s, and %s on %s" % (name, tensor.device, INPUTS[0][0], tensors[0].device))
        if tensor.dim() != len(shape):
            raise ValueError("attention_forward: %s must have the dimensions [%s], and its shape is %s" % (
                name, ", ".join(shape), tuple(tensor.shape)))
        for dimension, size in zip(shape, tensor.shape):
            if dimension not in sizes:
                sizes[dimension], said_by[dimension] = size, name
            elif sizes[dimension] != size:
                raise ValueError("attention_forward: the dimension %s is %s in %s, and %s in %s" % (
                    dimension, sizes[dimension], said_by[dimension], size, name))
    return sizes


def _result(outputs):
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


# What a task calls its tensors and numbers may hide any name: no more than these lines sees them.
def _meta(q, k, v, *, causal=None, scale=None):
    return _meta_of((q, k, v,), (causal, scale,))


def _cpu(q, k, v, *, causal=None, scale=None):
    return _launch((q, k, v,), (causal, scale,), None)


def _cuda(q, k, v, *, causal=None, scale=None):
    return _queue((q, k, v,), (causal, scale,))


def _meta_of(tensors, numbers):
    sizes = _dimensions(tensors, numbers)
    return _result([torch.empty([sizes[d] for d in shape], dtype=dtype, device="meta") for _, dtype, shape in OUTPUTS])


def _ready(name, tensor):
    """The tensor as the kernel needs it: contiguous, and at a place that it was made for."""
    tensor = tensor.contiguous()
    if tensor.data_ptr() % ALIGNMENT:
        tensor = tensor.clone()
    if tensor.data_ptr() % ALIGNMENT:
        raise RuntimeError("attention_forward: %s is not at a multiple of %d bytes, even as a copy" % (name, ALIGNMENT))
    return tensor


def describe_workload(sizes, numbers, places, threads):
    """A _Workload, and what must live as long as it; `places` are the tensors' addresses, or None."""
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
    # Launches only queue their work. What they use is this stream's until its earlier work is done, as everything that
    # PyTorch allocates is, so nothing needs to be kept alive or waited for here.
    with torch.cuda.device(tensors[0].device):
        return _launch(tensors, numbers, torch.cuda.current_stream().cuda_stream)


def release():
    """Frees all that is kept ready; the next call makes it anew. No CUDA graph with this operator may run afterwards.

    Nobody has to call it: the end of the process frees all, too.
    """
    with _lock:
        for index, handles in _handles.items():
            if TARGET == "cuda":
                torch.cuda.synchronize(index)
            with torch.cuda.device(index) if TARGET == "cuda" else contextlib.nullcontext():
                while handles:
                    _library.cultivar_contender_release(handles.popitem()[1][0])


def _registered():
    """The operator, in the first namespace of its name that no other copy of this module has taken.

    A registration lasts as long as the process and calls what this module then defines, also after a reload.
    """
    for copy in itertools.count(1):
        name = "cultivar_5d9f33a3ba30" if copy == 1 else "cultivar_5d9f33a3ba30_%d" % copy
        namespace = getattr(torch.ops, name)
        kept = vars(namespace).get("_cultivar")
        if kept is None:
            library = torch.library.Library(name, "DEF")
            compiles = getattr(getattr(torch, "Tag", None), "pt2_compliant_tag", None)
            library.define("attention_forward(Tensor q, Tensor k, Tensor v, *, bool? causal=None, float? scale=None) -> (Tensor, Tensor)", **({"tags": (compiles,)} if compiles else {}))
            for function, key in ((_cpu if TARGET == "cpu" else _cuda, TARGET.upper()), (_meta, "Meta")):
                library.impl("attention_forward", function, key)
            namespace._cultivar = kept = globals(), library
        if kept[0] is globals():
            return getattr(namespace, "attention_forward")


_operator = _registered()
