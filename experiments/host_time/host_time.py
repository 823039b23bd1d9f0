"""Times what the host does for one call of an exported operator in PyTorch, and the parts of that.

    python3 experiments/host_time/host_time.py BUNDLE [NAME=VALUE ...]

for example, with the bundle built, BUNDLE = best (experiments/attention_h200/best.tar.xz, unpacked) and D=128 S_q=128 S_kv=128. Names are the task's dimensions
(default: 1) and parameters (default: the task's). Choose a shape whose device time is short. 200 calls are queued without waiting for the
device; the figures are the median and the least of 41 such loops, in microseconds for one call, without the loop itself. The call is timed
both ways, in C++ (contender/direct.cpp of the bundle) and in Python, in loops that alternate.
"""

import ctypes
import functools
import importlib.util
import pathlib
import platform
import statistics
import sys
import time
import types

if {"-h", "--help"} & set(sys.argv[1:]):
    print(__doc__)
    sys.exit(0)
if len(sys.argv) < 2:
    print(__doc__, file=sys.stderr)
    sys.exit(2)
try:
    import torch
except ImportError:
    print("host_time.py: %s has no PyTorch" % sys.executable, file=sys.stderr)
    sys.exit(77)

CALLS, LOOPS = 200, 41


def load(bundle):
    file = next((pathlib.Path(bundle).resolve() / "pytorch").glob("cultivar_*.py"), None)
    if file is None:
        sys.exit("host_time.py: %s has no pytorch/cultivar_*.py: it is no bundle of `cultivar export`" % bundle)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wait():
    if module.TARGET == "cuda":
        torch.cuda.synchronize()


def loop(work):
    wait()
    began = time.perf_counter()
    for _ in range(CALLS):
        work()
    return (time.perf_counter() - began) / CALLS * 1e6


def loops(work):
    """The median and the least."""
    times = [loop(work) for _ in range(LOOPS)]
    return statistics.median(times), min(times)


def tell(name, work):
    told(name, *loops(work))


def told(name, *times):
    print("%8.2f %8.2f  %s" % (*(time - NOTHING for time in times), name), flush=True)


def alone(work):
    """Each call by itself, after the device became idle."""
    times = []
    for _ in range(CALLS):
        wait()
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1e6)
    return statistics.median(times), min(times)


def refuse(error):
    sys.exit("host_time.py: " + " ".join(str(error).split()))


def call():
    return module._call(tensors, numbers)


def choose(in_cpp):
    """The way that calls take from now on; None: the one in Python."""
    module._forget()
    module._in_cpp = in_cpp
    call()


def both_ways():
    """The call, and what the C++ way of it does until it knows the call."""
    kept, times = getattr(module, "_in_cpp", None), {"C++": [], "Python": []}
    if kept is None:
        print("   There is no way in C++: %s" % getattr(module, "_why_not_in_cpp", "this bundle is older"))
        return tell("THE CALL, one after another, in Python", call)
    for _ in range(LOOPS):
        for way in times:
            choose(kept if way == "C++" else None)
            times[way].append(loop(call))
    for way, all_times in times.items():
        told("THE CALL, one after another, in " + way, statistics.median(all_times), min(all_times))
    choose(kept)
    tell("the library's function in C++, of the call", lambda: kept.call(tensors, numbers))
    module._forget()
    tell("the comparison with earlier calls in C++, of that", lambda: kept.call(tensors, numbers))
    choose(kept)


try:
    module = load(sys.argv[1])
except (ImportError, OSError) as error:  # not built
    refuse(error)
try:
    given = {name: float(value) for name, value in (each.split("=") for each in sys.argv[2:])}
except ValueError:
    sys.exit("host_time.py: shapes are written NAME=VALUE")
names = {d for _, _, dimensions in module.INPUTS for d in dimensions} | {name for name, _ in module.NUMBERS}
if not names.issuperset(given):
    sys.exit("host_time.py: this bundle has no %s; it has %s" % (", ".join(set(given) - names), ", ".join(sorted(names))))
whole = {name: int(value) if value == int(value) else value for name, value in given.items()}
numbers = tuple(whole.get(name, 1 if is_dimension else None) for name, is_dimension in module.NUMBERS)
try:
    tensors = tuple(torch.zeros([whole.get(d, 1) for d in dimensions], dtype=dtype, device=module.TARGET)
                    for _, dtype, dimensions in module.INPUTS)
    call()
except (AssertionError, RuntimeError, TypeError, ValueError) as error:  # no device, or shapes that the kernel does not have
    refuse(error)
NOTHING = 0.0
NOTHING = min(loops(lambda: None))


def empty_operator(outputs):
    """An operator with the schema of the bundle's, written in Python like it, that returns tensors that it has."""
    schema = str(module._operator.default._schema).split("::")[-1]
    kept = torch.library.Library("cultivar_host_time", "DEF")
    kept.define(schema)
    kept.impl(schema.split("(")[0], lambda *_, **__: outputs, module.TARGET.upper())
    return kept, getattr(torch.ops.cultivar_host_time, schema.split("(")[0])


def parts_of_a_launch(outputs):
    """The library alone, called through ctypes with memory that is there."""
    places = iter(tensors), iter(outputs if isinstance(outputs, tuple) else (outputs,))
    data = (ctypes.c_void_p * len(module.TENSORS))(*[next(places[is_output]).data_ptr() for _, is_output, _, _ in module.TENSORS])
    with module._lock:
        handle, workspace_bytes = module._handle(tensors[0].device, module._dimensions(tensors, numbers), numbers)[:2]
    workspace = torch.empty(max(workspace_bytes, 1), dtype=torch.uint8, device=module.TARGET)
    place, stream = workspace.data_ptr(), torch.cuda.current_stream().cuda_stream if module.TARGET == "cuda" else None
    tell("ctypes: a function of the library that does nothing", lambda: module._library.cultivar_export_workspace_bytes(handle))
    tell("ctypes: the library's launch (maps, memset, kernels)" if module.TARGET == "cuda" else "ctypes: the library's launch, with the kernel",
         lambda: module._library.cultivar_export_launch(handle, data, place, stream))
    if module.TARGET == "cuda":
        memset = ctypes.CDLL("libcuda.so.1").cuMemsetD8Async
        memset.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p]
        tell("ctypes: cuMemsetD8Async of one byte", lambda: memset(place, 0, 1, stream))
        tell("torch.cuda._sleep(0), the launch of an empty kernel", lambda: torch.cuda._sleep(0))
        if workspace_bytes and getattr(module, "_take", None):
            tell("taking and giving the workspace", lambda: module._give(module._take(workspace_bytes, stream)))
    if workspace_bytes:
        tell("torch.empty for the workspace", functools.partial(torch.empty, workspace_bytes, dtype=torch.uint8, device=module.TARGET))


def main():
    outputs = call()
    print("PyTorch %s, Python %s, %s, %s\n  median    least  microseconds" % (
        torch.__version__, platform.python_version(), platform.processor() or platform.machine(),
        torch.cuda.get_device_name() if module.TARGET == "cuda" else "cpu"))
    with torch.no_grad():
        both_ways()
        print("%8.2f %8.2f  the call after the device became idle, with reading the clock" % alone(call))
        tell("the same through PyTorch's dispatcher", lambda: module._operator(*tensors, **module._named(numbers)))
        _kept, empty = empty_operator(outputs)
        tell("an empty operator with this schema", lambda: empty(*tensors, **module._named(numbers)))
        tell("the comparison with earlier calls in Python", lambda: module._key(tensors, numbers))
        for (name, _, _), output in zip(module.OUTPUTS, outputs if isinstance(outputs, tuple) else (outputs,)):
            tell("torch.empty for " + name, functools.partial(torch.empty, output.shape, dtype=output.dtype, device=output.device))
            tell("torch.empty_like for " + name, functools.partial(torch.empty_like, output))
        parts_of_a_launch(outputs)
    floating = [name for name, dtype, _ in module.INPUTS if dtype.is_floating_point]
    module.register_backward(types.SimpleNamespace(  # whose operator is never called
        INPUTS=[("grad_" + module.OUTPUTS[0][0], None, ())], OUTPUTS=[("grad_" + name, None, ()) for name in floating],
        NUMBERS=module.NUMBERS))
    for (_, dtype, _), tensor in zip(module.INPUTS, tensors):
        tensor.requires_grad_(dtype.is_floating_point)
    call()
    tell("the call with inputs that require gradients", call)


sys.exit(main())
