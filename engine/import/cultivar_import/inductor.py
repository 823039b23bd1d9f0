# SPDX-License-Identifier: Apache-2.0
"""What torch.compile generates for a task's reference on a GPU that need not be there.

    python -m cultivar_import.inductor ORDER RESULT      in a process of its own: it changes PyTorch's idea of the machine

TorchInductor is asked for the text of its Triton kernels only: the inputs are fake tensors of a CUDA device, whose sizes are
symbols named as the task's dimensions, and nothing is compiled or run. `generated` starts such a process and returns what it
wrote.
"""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types

from .refusal import brief

MULTIPROCESSORS = {80: 108, 86: 84, 89: 142, 90: 132, 100: 148, 103: 160, 120: 188}
MOST_ELEMENTS = 2**31 - 2**16  # offsets are 32 bits wide, and the last block reaches beyond the last element


class Inexpressible(Exception):
    """Why what torch.compile generated is no seed: a sentence's end."""


def generated(folder, inputs, sizes, architecture, most=None, seconds=80.0):
    """inputs: [(name, [sizes and names of dimensions], dtype)]; sizes: {dimension: its size in the example}; most: {dimension: the
    greatest size that is asked for}. {"code", "symbols", "conditions", "configurations", "torch", "triton", "multiprocessors"}."""
    if importlib.util.find_spec("triton") is None:
        raise Inexpressible("Triton is not installed")
    scratch = tempfile.mkdtemp()
    try:
        order, result = os.path.join(scratch, "order.json"), os.path.join(scratch, "result.json")
        with open(order, "w", encoding="utf-8") as file:
            json.dump({"folder": os.path.abspath(folder), "scratch": scratch, "inputs": inputs, "sizes": sizes,
                       "architecture": architecture, "most": most or {}}, file)
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TMPDIR": scratch, "TORCHINDUCTOR_CACHE_DIR": scratch,
                       "TRITON_CACHE_DIR": scratch, "TRITON_HOME": scratch}
        sources = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        environment["PYTHONPATH"] = os.pathsep.join([sources, *filter(None, [os.environ.get("PYTHONPATH")])])
        try:
            child = subprocess.run([sys.executable, "-s", "-m", "cultivar_import.inductor", order, result], env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Inexpressible(f"torch.compile does not end within {seconds:g} s") from None
        if not os.path.exists(result):
            raise Inexpressible(f"the process of torch.compile ended with code {child.returncode}")
        with open(result, encoding="utf-8") as file:
            told = json.load(file)
    finally:
        shutil.rmtree(scratch, True)
    if "why" in told:
        raise Inexpressible(told["why"])
    return told


# --- In the process of its own ---

def pretend(capability, multiprocessors):
    """Makes PyTorch and Triton answer questions about the GPU as if there was one; none of them can be used."""
    import torch
    import triton
    from torch._dynamo.device_interface import CudaInterface
    from triton.backends.compiler import GPUTarget
    major, minor = divmod(capability, 10)
    properties = types.SimpleNamespace(
        name="a GPU", major=major, minor=minor, multi_processor_count=multiprocessors, regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048 if capability in (80, 90, 100, 103) else 1536, max_threads_per_block=1024, warp_size=32,
        shared_memory_per_block_optin=232448 if capability in (90, 100, 103) else 101376, total_memory=64 << 30,
        L2_cache_size=50 << 20, gcnArchName="")
    answers = {"get_device_properties": properties, "get_device_capability": (major, minor), "get_device_name": properties.name,
               "current_device": 0, "device_count": 1, "is_bf16_supported": True}
    for name, value in answers.items():
        setattr(torch.cuda, name, lambda *_, _value=value, **__: _value)
    for name, value in {**answers, "is_available": True, "get_compute_capability": capability}.items():
        setattr(CudaInterface, name, staticmethod(lambda *_, _value=value, **__: _value))

    class Driver:
        def get_current_target(self):
            return GPUTarget("cuda", capability, 32)

        def get_current_device(self):
            return 0

    triton.runtime.driver.set_active(Driver())


SETTINGS = {
    "fx_graph_cache": False, "compile_threads": 1, "assert_indirect_indexing": False, "max_autotune": False, "shape_padding": False,
    "combo_kernels": False, "benchmark_combo_kernel": False, "memory_planning": False, "size_asserts": False, "alignment_asserts": False,
    "cpp_wrapper": False, "joint_graph_constant_folding": False, "autotune_local_cache": False, "triton.cooperative_reductions": False, "triton.multi_kernel": 0,
    "triton.mix_order_reduction": False, "triton.use_block_ptr": False, "triton.use_tensor_descriptor": False, "triton.cudagraphs": False,
    "triton.autotune_at_compile_time": False, "triton.unique_kernel_names": True,
}


def settings():
    from torch._inductor import config

    def known(name):
        value = config
        for part in name.split("."):
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return config.patch({name: value for name, value in SETTINGS.items() if known(name)})


class _Written(BaseException):
    """Ends a compilation when its text is there."""


@contextlib.contextmanager
def only_text(found):
    from torch._inductor.graph import GraphLowering
    usual = GraphLowering.compile_to_module

    def compile_to_module(graph):
        wrapper = graph.codegen()[0]
        found.append(wrapper if isinstance(wrapper, str) else wrapper.value)
        raise _Written
    GraphLowering.compile_to_module = compile_to_module
    try:
        yield
    except _Written:
        pass
    finally:
        GraphLowering.compile_to_module = usual


def fake_inputs(order, environment, mode):
    import torch
    from torch._dynamo.source import LocalSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic
    from torch.utils._sympy.value_ranges import ValueRanges
    symbols = {}

    def size(entry):
        if not isinstance(entry, str):
            return entry
        if entry not in symbols:
            value, source = max(2, order["sizes"][entry]), LocalSource(entry)
            symbol = environment.create_symbol(value, source, dynamic_dim=DimDynamic.DYNAMIC)
            if entry in order["most"]:
                environment.var_to_range[symbol] = ValueRanges(2, order["most"][entry])
            symbols[entry] = environment.create_symintnode(symbol, hint=value, source=source)
        return symbols[entry]

    with mode:
        tensors = [torch.empty([size(e) for e in shape], dtype=getattr(torch, dtype), device="cuda")
                   for _, shape, dtype in order["inputs"]]
    return tensors, {name: node.node.expr for name, node in symbols.items()}


def conditions(environment, symbols, named, most):
    """What sizes must satisfy for the code to be right, in the task format's expressions."""
    import sympy
    from .trace import _needed, _only_of_layout, to_task
    found = []
    for name, symbol in symbols.items():  # what PyTorch knows to be a number, or another's
        own = environment.replace(symbol).xreplace(named)
        size = sympy.Symbol(name, integer=True, positive=True)
        if own != size:
            found.append(sympy.Eq(size, own, evaluate=False))
        bounds = environment.var_to_range.get(symbol)
        if bounds is not None and own == size and name not in most:
            found += [sympy.Ge(size, bounds.lower)] if bounds.lower.is_Integer and bounds.lower > 2 else []
            found += [sympy.Le(size, bounds.upper)] if bounds.upper.is_Integer and bounds.upper < MOST_ELEMENTS else []
    for guard in environment.guards:
        e = environment.replace(guard.expr).xreplace(named)
        if e is sympy.true or _only_of_layout(e):  # sizes of 0 and 1 differ in nothing but strides
            continue
        if e.free_symbols - set(named.values()):
            raise Inexpressible(f"torch.compile asks for {e}, which no dimension says")
        if isinstance(e, sympy.Le) and e.args[1] == 2**31 - 1:
            e = sympy.Le(e.args[0], MOST_ELEMENTS)
        found.append(e)
    texts = [to_task(c) for c in _needed(found, [sympy.Symbol(name, integer=True, positive=True) for name in symbols])]
    return texts + [f"{name} <= {bound}" for name, bound in most.items()]


def configurations(code, scratch):
    """{kernel: [the block sizes and so on that torch.compile's own autotuning would begin with, and those that it would try with
    max_autotune]}."""
    found = {}
    for name, text in re.findall(r"async_compile\.triton\('(\w+)', '''(.*?)'''", code, re.DOTALL):
        tried = []
        for most in (False, True):
            own = re.sub(r"'(max_autotune|max_autotune_pointwise)': (True|False)", rf"'\1': {most}", text)
            own = re.sub(r"^triton_helpers\.set_driver_to_gpu\(\)$", "", own, flags=re.MULTILINE)
            path = os.path.join(scratch, f"{name}_{most}.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(own)
            names = {"__name__": "kernel", "__file__": path}
            exec(compile(own, path, "exec"), names)  # the text of torch.compile: decorators, no launch
            for each in names[name].configs:
                one = {**each.kwargs, "num_warps": each.num_warps, "num_stages": each.num_stages}
                if one not in tried:
                    tried.append(one)
        found[name] = tried
    return found


def answer(order):
    import sympy
    import torch
    import triton
    from torch._inductor import compile_fx
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from .subject import load_reference
    digits = re.match(r"sm_(\d+)", order["architecture"])
    capability = int(digits.group(1)) if digits else 0
    if capability not in MULTIPROCESSORS:
        raise Inexpressible(f"nothing is known of a GPU of {order['architecture']}; known are "
                            f"{', '.join(f'sm_{c}' for c in MULTIPROCESSORS)}")
    torch.set_num_threads(1)
    compute = load_reference(order["folder"])
    pretend(capability, MULTIPROCESSORS[capability])
    environment = ShapeEnv(duck_shape=False, specialize_zero_one=True)
    mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    tensors, symbols = fake_inputs(order, environment, mode)

    def run(*given):
        result = compute(*given)
        return tuple(part.contiguous() for part in torch.utils._pytree.tree_leaves(result) if isinstance(part, torch.Tensor))

    found = []
    with torch.no_grad(), mode:
        graph = make_fx(torch.func.functionalize(run, remove="mutations"), tracing_mode="real", _allow_non_fake_inputs=True)(*tensors)
        with torch._guards.tracing(torch._guards.TracingContext(mode)), settings(), only_text(found):
            compile_fx.compile_fx(graph, tensors)
    if not found:
        raise Inexpressible("torch.compile generated nothing")
    named, texts = {}, {}
    for name, symbol in symbols.items():
        own = environment.replace(symbol)
        if isinstance(own, sympy.Symbol) and own not in named:
            named[own] = sympy.Symbol(name, integer=True, positive=True)
            texts[str(own)] = name
    return {"code": found[0], "symbols": texts, "conditions": conditions(environment, symbols, named, order["most"]),
            "configurations": configurations(found[0], order["scratch"]), "torch": torch.__version__.split("+")[0],
            "triton": triton.__version__, "multiprocessors": MULTIPROCESSORS[capability]}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        order = json.load(file)
    try:
        result = answer(order)
    except Inexpressible as why:
        result = {"why": str(why)}
    except ImportError as error:
        result = {"why": f"this PyTorch has no TorchInductor for Triton ({brief(error, 120)})"}
    except Exception as error:
        if os.environ.get("CULTIVAR_IMPORT_DEBUG"):
            raise
        result = {"why": f"torch.compile fails on it: {brief(error, 200)}"}
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
