# SPDX-License-Identifier: Apache-2.0
"""A PyTorch function computed exactly, as its permitted roundings compute it, and as plausible mistakes would.

All three run the function under a dispatch mode, which sees each ATen operation with its arguments:

- exact(): every floating tensor and every floating dtype argument is f64, also where the function itself asks for f32;
- rounded(): of each element the worst of three: PyTorch in the dtype of the inputs; a plain kernel, whose operations round to f32
  and whose sums add one value after the other; f64 rounded at the end. Its error is the R of the tolerance
  (evaluators/check/README.md);
- mutant(): one operation left out, its bias left out, a tail of its reduction left out, one of its constants changed, or its result
  rounded to fp8. A comparison that does not tell a mutant from the function would not see such a mistake in a kernel either.
"""

import contextlib
import os
import sys
import typing

import numpy
import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

aten = torch.ops.aten
LOW = {torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2}


class DrawsRandomNumbers(RuntimeError):
    """The function draws random numbers."""


def _lifted(value):
    if isinstance(value, torch.Tensor) and value.dtype in LOW:
        return value.to(torch.float64)
    if isinstance(value, torch.Tensor) and value.dtype == torch.complex64:
        return value.to(torch.complex128)
    if isinstance(value, torch.dtype) and value in LOW:
        return torch.float64
    return value


def outputs_of(result):
    """The tensors that a function returned, as a tuple."""
    if isinstance(result, torch.Tensor):
        return (result,)
    if isinstance(result, dict):
        result = tuple(result.values())
    flat = [value for value in tree_flatten(result)[0] if value is not None]
    if not flat or not all(isinstance(value, torch.Tensor) for value in flat):
        raise TypeError("the function must return a tensor or a tuple of tensors, not %s" % type(result).__name__)
    return tuple(flat)


def is_view(func):
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)


_MOVES = {"clone", "_to_copy", "contiguous", "detach", "alias", "copy_", "copy", "lift_fresh_copy", "lift_fresh", "fill_", "zero_", "empty",
          "empty_like", "empty_strided", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "new_zeros", "new_ones",
          "new_empty", "new_full", "arange", "scalar_tensor", "_local_scalar_dense", "eye", "linspace", "_unsafe_view", "set_", "resize_"}


def _computes(func):
    """Whether an operation computes something; views, copies and factories do not."""
    return not is_view(func) and func._schema.name.split("::")[-1] not in _MOVES


class Lifted(TorchDispatchMode):
    """Every floating number is f64. `after(func, args, kwargs, result)` may replace the result of an operation that computes, and
    `instead(index, func, args, kwargs)` an operation itself (None: as it is)."""

    def __init__(self, after=None, instead=None):
        super().__init__()
        self.after, self.instead, self.count = after, instead, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise DrawsRandomNumbers("it draws random numbers (%s)" % func._schema.name)
        name = func._schema.name.split("::")[-1]
        args, kwargs = tree_map(_lifted, args), tree_map(_lifted, kwargs or {})
        computes, result = _computes(func), None
        if computes:
            if self.instead is not None:
                result = self.instead(self.count, func, args, kwargs)
            self.count += 1
        if result is None:
            result = func(*args, **kwargs)
        result = tree_map(_lifted, result)
        if computes and self.after is not None:
            changed = self.after(func, name, args, kwargs, result)
            if changed is not None:
                if func._schema.is_mutable and isinstance(result, torch.Tensor) and isinstance(changed, torch.Tensor):
                    result.copy_(changed)
                else:
                    result = changed
        return result


@contextlib.contextmanager
def _careful():
    """Attention by its definition, no TF32, no sums in less than f32, f64 wherever a dtype is left open."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    default = torch.get_default_dtype()
    cuda = torch.backends.cuda.matmul
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        cuda.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        cuda.allow_bf16_reduced_precision_reduction = cuda.allow_fp16_reduced_precision_reduction = False
        try:
            yield
        finally:
            torch.set_default_dtype(default)


def _in_f64(compute, inputs, numbers, **mode):
    with _careful(), Lifted(**mode):
        torch.set_default_dtype(torch.float64)
        return tuple(t.clone() for t in outputs_of(compute(*[_lifted(t).clone() for t in inputs], **numbers)))


def exact(compute, inputs, numbers={}):
    """The outputs in f64 (whole numbers as they are) for these inputs, of any dtype."""
    return _in_f64(compute, inputs, numbers)


_LONG_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "vdot", "addbmm", "addr", "convolution", "convolution_overrideable",
                  "_convolution", "_thnn_conv2d", "slow_conv3d_forward", "slow_conv_transpose2d", "slow_conv_transpose3d"}


class _WideProducts(TorchDispatchMode):
    """Products of 16-bit numbers sum in f32 and round once, as those of a GPU. Those of a cpu differ from processor to processor,
    and permitted roundings may not."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        narrow = (torch.bfloat16, torch.float16)
        dtype = next((t.dtype for t in args if isinstance(t, torch.Tensor) and t.dtype in narrow), None)
        if dtype is None or func._schema.is_mutable or func._schema.name.split("::")[-1] not in _LONG_PRODUCTS:
            return func(*args, **(kwargs or {}))
        def moved(values, of, to):
            return tree_map(lambda t: t.to(to) if isinstance(t, torch.Tensor) and t.dtype == of else t, values)

        result = func(*moved(args, dtype, torch.float32), **moved(kwargs or {}, dtype, torch.float32))
        return moved(result, torch.float32, dtype)


def eager(compute, inputs, numbers={}):
    """The outputs as PyTorch computes them in the inputs' dtypes."""
    with _careful(), _WideProducts():
        return outputs_of(compute(*[t.clone() for t in inputs], **numbers))


def _round_to(value, dtype):
    return value.to(dtype).to(torch.float64) if isinstance(value, torch.Tensor) and value.dtype == torch.float64 else value


# Operations that sum, and whose sums a kernel writes itself. Products are left to eager: their sums are long, and how a library
# splits them is how a careful kernel does.
_SUMMING = {"_softmax", "_log_softmax", "logsumexp", "mean", "var", "var_mean", "std", "std_mean", "native_layer_norm", "native_group_norm",
            "_native_batch_norm_legit_functional", "native_batch_norm", "linalg_vector_norm", "norm", "_fused_rms_norm", "_safe_softmax"}


def _sum_in_turn(value, dims, keepdim):
    """The sum over dims in f32, one value after the other."""
    dims = sorted(d % max(1, value.dim()) for d in dims) if dims else list(range(value.dim()))
    if value.dim() == 0 or value.numel() == 0:
        return value.sum(dims, keepdim=keepdim) if value.dim() else value
    rest = [d for d in range(value.dim()) if d not in dims]
    count = 1
    for d in dims:
        count *= value.shape[d]
    shape = [value.shape[d] for d in rest]
    lines = value.to(torch.float32).permute(dims + rest).reshape(count, -1).contiguous().numpy()
    if lines.shape[1] == 1:  # numpy would add a single contiguous line in pairs
        lines = numpy.repeat(lines, 2, axis=1)
        total = torch.from_numpy(numpy.add.reduce(lines, axis=0)[:1].copy())
    else:
        total = torch.from_numpy(numpy.add.reduce(lines, axis=0))
    total = total.to(torch.float64).reshape(shape)
    if keepdim:
        for d in dims:
            total = total.unsqueeze(d)
    return total


class _PlainKernel(Lifted):
    """f32 after each operation; sums in turn."""

    def __init__(self):
        super().__init__(after=lambda func, name, args, kwargs, result: tree_map(lambda t: _round_to(t, torch.float32), result),
                         instead=self.summed)

    def summed(self, index, func, args, kwargs):
        name = func._schema.name.split("::")[-1]
        if name == "sum" and _is_float(args[0]):
            dims = args[1] if len(args) > 1 else kwargs.get("dim")
            return _sum_in_turn(args[0], [dims] if isinstance(dims, int) else dims, args[2] if len(args) > 2 else kwargs.get("keepdim", False))
        if name == "mean" and _is_float(args[0]):
            dims = args[1] if len(args) > 1 else kwargs.get("dim")
            keep = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
            total = _sum_in_turn(args[0], [dims] if isinstance(dims, int) else dims, keep)
            return total * (total.numel() / max(1, args[0].numel()))
        if name in _SUMMING and func in decomposition_table:
            with self:
                return decomposition_table[func](*args, **kwargs)
        return None


def _plain(compute, inputs, numbers):
    with _careful(), _PlainKernel():
        torch.set_default_dtype(torch.float64)
        return tuple(t.clone() for t in outputs_of(compute(*[_lifted(t).clone() for t in inputs], **numbers)))


def rounded(compute, inputs, dtype, numbers={}, exactly=None, dtypes=None, overflows=False):
    """Of each element the value with the greatest error that the permitted roundings have. `exactly`: the result of exact().
    `dtypes`: of the outputs (default: all `dtype`, that of the inputs). An output in a finer dtype than the inputs' is permitted
    a plain kernel's errors only: what eager rounds to the inputs' dtype on the way to it is a loss that nobody asked for.
    `overflows`: an element that is not finite in one of the roundings is so in the result, too: such inputs are beyond what a
    sound computation bears."""
    exactly = exact(compute, inputs, numbers) if exactly is None else exactly
    dtypes = [dtype] * len(exactly) if dtypes is None else dtypes

    def plain():
        return tuple(_round_to(t, own) for t, own in zip(_plain(compute, inputs, numbers), dtypes))

    worst = [_round_to(t, own) for t, own in zip(exactly, dtypes)]
    for model in (lambda: eager(compute, inputs, numbers), plain):
        try:
            values = model()
        except NotImplementedError:  # this dtype has no such operation on this device
            continue
        except RuntimeError as error:
            if "not implemented for" not in str(error):
                raise
            continue
        for i, (best, given) in enumerate(zip(worst, values)):
            if best.dtype != torch.float64 or (
                    model is not plain and dtypes[i].is_floating_point and torch.finfo(dtypes[i]).eps < torch.finfo(dtype).eps):
                continue
            given = given.to(torch.float64)
            # What overflows in one model only is not permitted everywhere: the exact value says what is finite.
            farther = (given - exactly[i]).abs() > (best - exactly[i]).abs()
            finite = given.isfinite()
            worst[i] = torch.where(farther & finite | ~finite if overflows else farther & finite, given, best)
    return tuple(worst)


# --- mutants ---------------------------------------------------------------------------------------------------------------

_REDUCTIONS = {"sum", "mean", "amax", "amin", "var", "prod", "max", "min", "logsumexp", "norm", "linalg_vector_norm", "any", "all", "std"}
_PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "mv": (0, 1), "dot": (0, 1)}
_SOFTMAX = {"_softmax": 0.0, "_log_softmax": float("-inf")}


def _is_float(value):
    return isinstance(value, torch.Tensor) and value.dtype == torch.float64


def _bias_at(func, args):
    """The place of an optional bias among the arguments, if one is given."""
    if func._schema.name in ("aten::addmm", "aten::baddbmm", "aten::addmv"):
        return 0
    for i, argument in enumerate(func._schema.arguments):
        if argument.name == "bias" and i < len(args) and _is_float(args[i]):
            return i
    return None


def _constant_at(func, args):
    for i, argument in enumerate(func._schema.arguments):
        if i < len(args) and isinstance(args[i], float) and args[i] != 0.0 and argument.name not in ("momentum",):
            return i
    return None


def _dims_of(args, kwargs):
    dims = args[1] if len(args) > 1 and isinstance(args[1], (int, list, tuple)) and not isinstance(args[1], bool) else kwargs.get("dim")
    dims = [dims] if isinstance(dims, int) else dims
    return [d % max(1, args[0].dim()) for d in dims] if dims else list(range(args[0].dim()))


def _shorter(tensor, dim):
    extent = tensor.shape[dim]
    return tensor.narrow(dim, 0, extent - max(1, extent // 8))


def _cut(func, name, args, kwargs):
    """The operation without the last eighth of what it reduces, or None."""
    args = list(args)
    if name in _REDUCTIONS and args and _is_float(args[0]) and args[0].dim():
        dim = max(_dims_of(args, kwargs), key=lambda d: args[0].shape[d])
        if args[0].shape[dim] < 2:
            return None
        return func(_shorter(args[0], dim), *args[1:], **kwargs)
    if name in _PRODUCTS:
        left, right = _PRODUCTS[name]
        k = args[left].dim() - 1
        if args[left].shape[k] < 2:
            return None
        args[left] = _shorter(args[left], k)
        args[right] = _shorter(args[right], max(0, args[right].dim() - 2))
        return func(*args, **kwargs)
    if name in _SOFTMAX and args[0].dim():
        dim = args[1] % args[0].dim()
        if args[0].shape[dim] < 2:
            return None
        part = func(_shorter(args[0], dim), *args[1:], **kwargs)
        result = torch.full_like(args[0], _SOFTMAX[name])
        result.narrow(dim, 0, part.shape[dim]).copy_(part)
        return result
    if name in ("convolution", "_convolution") and args[1].shape[1] * args[1][0, 0].numel() > 1:
        weight = args[1].clone()
        if weight.shape[1] > 1:
            weight[:, weight.shape[1] - max(1, weight.shape[1] // 8):] = 0.0
        else:
            weight[..., -1] = 0.0
        args[1] = weight
        return func(*args, **kwargs)
    return None


def _without(func, args, result):
    """What an operation that is left out passes on: its first floating argument, where the shapes allow that."""
    if not _is_float(result):
        return None
    for value in args:
        if _is_float(value):
            try:
                return value.expand(result.shape).clone()
            except RuntimeError:
                continue
    return None


def _fp8(result):
    if _is_float(result):
        return result.clamp(-448.0, 448.0).to(torch.float8_e4m3fn).to(torch.float64)
    return None


def _changed(kind, func, name, args, kwargs):
    """The result of an operation with a mistake of this kind; None: it cannot be made here."""
    if kind == "cut":
        return _cut(func, name, args, kwargs)
    if kind == "without":
        return _without(func, args, func(*args, **kwargs))
    if kind == "fp8":
        result = func(*args, **kwargs)
        if isinstance(result, (tuple, list)):
            first = _fp8(result[0])
            return None if first is None else type(result)([first, *result[1:]]) if isinstance(result, list) else (first, *result[1:])
        return _fp8(result)
    args = list(args)
    if kind == "biasless":
        at = _bias_at(func, args)
        if at is None:
            return None
        args[at] = torch.zeros_like(args[at])
        return func(*args, **kwargs)
    at = _constant_at(func, args)
    if at is None:
        return None
    args[at] *= 1.5
    return func(*args, **kwargs)


class Mistake(typing.NamedTuple):
    name: str  # such as without_relu_3: the fourth operation
    about: str
    serious: bool  # something is left out; the others are a wrong constant and a rounding


# kind: (what is wrong with the operation, whether it is serious)
_KINDS = {"without": ("%s is left out", True), "biasless": ("the bias of %s is left out", True),
          "cut": ("the last eighth of what %s sums or compares is left out", True),
          "scaled": ("a constant of %s is 1.5 times as large", False), "fp8": ("the result of %s is rounded to fp8", False)}


def _identifier(name):
    return "".join(c if c.isalnum() else "_" for c in name).strip("_")


_OWN = os.path.dirname(os.path.abspath(__file__))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))


def _line_of_caller():
    """" in line 12 of model.py" of the user's code that runs now."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if os.path.isabs(file) and not file.startswith((_OWN + os.sep, _TORCH + os.sep)) and "torch" not in file.split(os.sep):
            return " in line %d of %s" % (frame.f_lineno, os.path.basename(file))
        frame = frame.f_back
    return ""


def mutants(compute, inputs, numbers={}):
    """The Mistakes that can be made in this function."""
    found = []

    def look(index, func, args, kwargs):
        name = func._schema.name.split("::")[-1]
        for kind, (about, serious) in _KINDS.items():
            if func._schema.is_mutable:
                continue
            with torch.no_grad():
                try:
                    possible = _changed(kind, func, name, args, kwargs) is not None
                except (RuntimeError, TypeError, IndexError):
                    possible = False
            if possible:
                found.append(Mistake("%s_%s_%d" % (kind, _identifier(name), index), about % (name.strip("_") + _line_of_caller()), serious))
        return None

    _in_f64(compute, inputs, numbers, instead=look)
    return found


def mutant(compute, inputs, name, numbers={}):
    """The outputs in f64 with this mistake. Raises LookupError if the function has no such operation for these inputs."""
    kind, _, rest = name.partition("_")
    operation, _, index = rest.rpartition("_")
    if kind not in _KINDS or not index.isdigit():
        raise LookupError("%s is not the name of a mutant, such as without_relu_3" % name)
    made = []

    def instead(i, func, args, kwargs):
        own = func._schema.name.split("::")[-1]
        if i != int(index) or _identifier(own) != operation:
            return None
        result = _changed(kind, func, own, args, kwargs)
        if result is not None:
            made.append(i)
        return result

    result = _in_f64(compute, inputs, numbers, instead=instead)
    if not made:
        raise LookupError("operation %s of the function is not %s for these inputs, so %s cannot be made" % (index, operation, name))
    return result
