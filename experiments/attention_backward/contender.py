"""Calls a contender library (evaluators/contenders/cultivar_contender.h) on PyTorch's tensors.

    attention = Contender("libcultivar-contender-flash_attention_3.so", "attention_forward", dict(B=1, H=8, ...), inputs, outputs)
    attention(inputs, outputs)                 # dicts of name -> contiguous tensor on a GPU; queues the work on the current stream

Raises RuntimeError with the library's own message if it cannot prepare the workload or launch.
"""

import ctypes as c

import torch

DTYPES = {torch.bfloat16: b"bf16", torch.float16: b"f16", torch.float32: b"f32"}


class Description(c.Structure):
    _fields_ = [("abi", c.c_uint32), ("name", c.c_char_p), ("version", c.c_char_p), ("task", c.c_char_p), ("target", c.c_char_p)]


class Value(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_double)]


class Text(c.Structure):
    _fields_ = [("name", c.c_char_p), ("text", c.c_char_p)]


class Tensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("is_output", c.c_int32), ("rank", c.c_int32), ("dtype", c.c_char_p),
                ("extents", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("data", c.c_void_p)]


class Workload(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_char_p), ("values", c.POINTER(Value)), ("tensors", c.POINTER(Tensor)),
                ("value_count", c.c_uint32), ("tensor_count", c.c_uint32), ("threads", c.c_uint32), ("text_count", c.c_uint32),
                ("texts", c.POINTER(Text)), ("stream", c.c_void_p)]


class Contender:
    def __init__(self, path, task, values, inputs, outputs):
        library = self.library = c.CDLL(path)
        library.cultivar_contender_describe.restype = c.POINTER(Description)
        library.cultivar_contender_last_error.restype = c.c_char_p
        library.cultivar_contender_prepare.argtypes = [c.POINTER(Workload), c.POINTER(c.c_void_p)]
        library.cultivar_contender_launch.argtypes = [c.c_void_p, c.POINTER(c.c_void_p), c.c_void_p]
        library.cultivar_contender_release.argtypes = [c.c_void_p]
        self.version = library.cultivar_contender_describe().contents.version.decode()
        tensors = [(name, tensor, 0) for name, tensor in inputs.items()] + [(name, tensor, 1) for name, tensor in outputs.items()]
        array = lambda kind, items: (kind * len(items))(*items)  # noqa: E731
        told = array(Tensor, [Tensor(name.encode(), is_output, tensor.dim(), DTYPES[tensor.dtype], array(c.c_int64, tensor.shape),
                                     array(c.c_int64, tensor.stride()), tensor.data_ptr()) for name, tensor, is_output in tensors])
        workload = Workload(b"", DTYPES[tensors[0][1].dtype], array(Value, [Value(n.encode(), v) for n, v in values.items()]), told,
                            len(values), len(tensors), 0, 1, array(Text, [Text(b"task", task.encode())]),
                            torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        self.handle = c.c_void_p()
        self.must(library.cultivar_contender_prepare(c.byref(workload), c.byref(self.handle)))

    def must(self, code):
        if code:
            raise RuntimeError(self.library.cultivar_contender_last_error().decode())

    def __call__(self, inputs, outputs):
        data = [tensor.data_ptr() for tensor in (*inputs.values(), *outputs.values())]
        self.must(self.library.cultivar_contender_launch(self.handle, (c.c_void_p * len(data))(*data), torch.cuda.current_stream().cuda_stream))
