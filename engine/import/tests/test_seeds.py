# SPDX-License-Identifier: Apache-2.0
"""Derives seeds for many functions, runs the cpu seed and compares it with PyTorch.

    python test_seeds.py                    functions of this file
    python test_seeds.py --kernelbench DIR  the problems of a checkout of KernelBench, at reduced sizes
        [--level N] [--only SUBSTRING] [--nvcc] [--show]
"""

from __future__ import annotations

import argparse
import ast
import ctypes
import glob
import hashlib
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import torch
import torch.nn.functional as F

from cultivar_import.seeds import derive
from cultivar_import.trace import Traced, trace

GUARD = 64


def evaluated(expression: str, values: dict):
    text = re.sub(r"!(?!=)", " not ", expression.replace("&&", " and ").replace("||", " or ").replace("^", "**"))
    names = {
        "floor_div": lambda a, b: a // b, "ceil_div": lambda a, b: -(-a // b), "min": min, "max": max, "sqrt": math.sqrt,
        "floor": math.floor, "ceil": math.ceil, "abs": abs, "log2": math.log2, "num_cores": 2, "THREADS": 256,
    }
    return eval(text, {"__builtins__": {}}, {**names, **values})


def manifest_of(text: str) -> dict:
    import yaml

    return yaml.safe_load(text.split("/*--- cultivar\n", 1)[1].split("---*/", 1)[0])


def compiled(text: str, folder: str, level: str = "-O1"):
    manifest = manifest_of(text)
    macros = [f"-D{n}={t['default']}" for n, t in (manifest.get("tunables") or {}).items()]
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    source, library = os.path.join(folder, name + ".cpp"), os.path.join(folder, name + ".so")
    with open(source, "w") as file:
        file.write(text)
    began = time.time()
    result = subprocess.run(
        ["g++", level, "-std=c++20", "-Wall", "-Wno-unused-variable", "-march=native", "-ffp-contract=fast", "-fno-exceptions",
         "-shared", "-fPIC", "-DDTYPE=float", "-DDTYPE_F32=1", *macros, source, "-o", library],
        capture_output=True, text=True,
    )
    if result.returncode:
        raise RuntimeError("the cpu seed does not compile: " + result.stderr[:1500])
    return manifest, ctypes.CDLL(library), time.time() - began


C = {
    "f32": torch.float32, "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8, "i16": torch.int16, "i8": torch.int8,
}


def run_seed(manifest, library, traced: Traced, inputs, dims, threads: int):
    alive, pointers = [], {}
    for info, tensor in zip(traced.inputs, inputs):
        kept = (tensor.to(torch.uint8) if info.is_bool else tensor).contiguous()
        alive.append(kept)
        pointers[info.name] = kept.data_ptr()
    outputs = []
    for info in traced.outputs:
        shape = [dims[s] if isinstance(s, str) else s for s in info.shape]
        count = math.prod(shape)
        whole = torch.full([count + GUARD], float("nan") if info.dtype == "f32" else 113, dtype=C[info.dtype])
        outputs.append((whole, count, shape))
        pointers[info.name] = whole.data_ptr()
    for name, space in (manifest.get("workspace") or {}).items():
        size = int(evaluated(str(space["bytes"]), dims))
        whole = torch.full([size + 8 * GUARD], 255, dtype=torch.uint8)
        alive.append((whole, size))
        pointers[name] = whole.data_ptr()
    for launch in manifest["launch"]:
        function = getattr(library, launch["kernel"])
        for thread in range(threads):
            args = []
            for arg in launch["args"]:
                if arg in pointers:
                    args.append(ctypes.c_void_p(pointers[arg]))
                else:
                    args.append(ctypes.c_int({"thread": thread, "threads": threads, **dims}[arg]))
            function(*args)
    for one in alive:
        if isinstance(one, tuple) and not bool((one[0][one[1]:] == 255).all()):
            raise RuntimeError("a workspace was written beyond its end")
    results = []
    for (whole, count, shape), info in zip(outputs, traced.outputs):
        rest = whole[count:]
        if not bool((torch.isnan(rest) if rest.dtype.is_floating_point else rest == 113).all()):
            raise RuntimeError("an output was written beyond its end")
        results.append(whole[:count].reshape(shape))
    return results


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    return [t for r in result if r is not None for t in flat(r)]


def compare(traced, function, inputs, results) -> str | None:
    with torch.no_grad():
        eager = flat(function(*[t.clone() for t in inputs]))
        try:
            exact = flat(function(*[t.double() if t.dtype == torch.float32 else t.clone() for t in inputs]))
        except Exception:
            exact = eager
    for number, (got, want, plain) in enumerate(zip(results, exact, eager)):
        if list(got.shape) != list(want.shape):
            return f"output {number} has the shape {list(got.shape)}, not {list(want.shape)}"
        if not want.dtype.is_floating_point:
            wrong = int((got.long() != plain.long()).sum())
            if wrong and wrong > 0.001 * got.numel():
                return f"output {number}: {wrong} of {got.numel()} whole numbers differ"
            continue
        got, plain, want = got.double(), plain.double(), want.double()
        nan = torch.isnan(want)
        if not bool((torch.isnan(got) == nan).all()):
            return f"output {number}: {int((torch.isnan(got) != nan).sum())} of {got.numel()} NaN differ"
        infinite = torch.isinf(want)
        if not bool((torch.isinf(got) == infinite).all()) or not bool((got[infinite] == want[infinite]).all()):
            return f"output {number}: infinities differ"
        usable = ~(nan | infinite)
        got, plain, want = got[usable], plain[usable], want[usable]
        if not want.numel():
            continue
        rms = lambda t: float(t.square().mean().sqrt())
        error, usual, size = rms(got - want), rms(plain - want), rms(want)
        if error > 2 * usual + 64 * 2.0**-24 * size:
            return f"output {number}: error {error / (size or 1):.2e}, PyTorch's {usual / (size or 1):.2e}"
        top, usual_top = float((got - want).abs().max()), float((plain - want).abs().max())
        if top > 4 * usual_top + 256 * 2.0**-24 * float(want.abs().max()):
            return f"output {number}: greatest error {top:.2e}, PyTorch's {usual_top:.2e}"
    return None


def sizes_near(traced: Traced, seed: int):
    """Other sizes that the relations allow."""
    draw = random.Random(seed)
    base = [d for d in traced.dimensions if d.default is None]
    for trial in range(400):
        dims = {}
        for d in base:
            v = d.value
            choice = draw.random()
            dims[d.name] = v if choice < 0.25 + trial / 800 else max(1, v + draw.choice([-3, -2, -1, 1, 2, 3, 5, 8])) if choice < 0.8 else draw.choice([1, 2, v * 2, max(1, v // 2)])
        if math.prod(dims.values()) > 50 * math.prod(d.value for d in base) or dims == {d.name: d.value for d in base}:
            continue
        try:
            for d in traced.dimensions:
                if d.default is not None:
                    dims[d.name] = int(evaluated(d.default, dims))
            if all(v >= 1 for v in dims.values()) and all(evaluated(r, dims) for r in traced.relations):
                return dims
        except ZeroDivisionError:
            pass
    return None


def resized(traced, inputs, dims):
    result = []
    torch.manual_seed(7)
    for info, tensor in zip(traced.inputs, inputs):
        shape = [dims[s] if isinstance(s, str) else s for s in info.shape]
        count = math.prod(shape)
        pool = tensor.reshape(-1)
        chosen = pool[torch.randint(0, max(1, pool.numel()), [count])].reshape(shape).contiguous()
        if not tensor.dtype.is_floating_point and tensor.dtype != torch.bool and dims:
            chosen = chosen % min([*dims.values(), 10**9])
        result.append(chosen)
    return result


def check(function, inputs, names, show=False, nvcc=False, hints=None, folder="/tmp/cultivar_seeds", run=True):
    """(stage reached, text): stages are failed, traced, derived, correct."""
    os.makedirs(folder, exist_ok=True)
    began = time.time()
    traced = trace(function, inputs, names, hints)
    trace_s = time.time() - began
    began = time.time()
    seeds = derive(traced, "task")
    derive_s = time.time() - began
    note = f"dynamic {traced.dynamic}, trace {trace_s:.1f} s, derive {derive_s:.1f} s"
    if show:
        print(traced.graph.code)
        print([(i.name, i.dtype, i.shape) for i in traced.inputs], [(o.name, o.dtype, o.shape) for o in traced.outputs])
        print([(d.name, d.value, d.default) for d in traced.dimensions], traced.relations, traced.flops, traced.notes)
        print(seeds.cpu)
        print(seeds.cuda if nvcc else "")
    if traced.notes:
        note += " (" + traced.notes[0][:160] + ")"
    if seeds.cpu is None or seeds.cuda is None:
        return "traced", f"{seeds.why}; {note}"
    if not run:
        return "derived", f"not run; {note}, {len(manifest_of(seeds.cpu)['launch'])} launches"
    manifest, library, compile_s = compiled(seeds.cpu, folder)
    note += f", compile {compile_s:.1f} s, {len(manifest['launch'])} launches"
    if nvcc:
        for dtype in ("-DDTYPE=float -DDTYPE_F32=1", "-DDTYPE=__half -DDTYPE_F16=1", "-DDTYPE=__nv_bfloat16 -DDTYPE_BF16=1"):
            path = os.path.join(folder, "seed.cu")
            with open(path, "w") as file:
                file.write(seeds.cuda)
            result = subprocess.run(
                ["/usr/local/cuda/bin/nvcc", "-std=c++20", "-arch=sm_90", "-cubin", "-DTHREADS=256", *dtype.split(), path, "-o", path + "bin"],
                capture_output=True, text=True,
            )
            if result.returncode:
                return "derived", "the cuda seed does not compile: " + result.stderr[:600]
            if not nvcc == "all":
                break
    tried = 0
    for number in range(3):
        dims = dict(traced.dims) if number == 0 else sizes_near(traced, number)
        if dims is None:
            continue
        data = inputs if number == 0 else resized(traced, inputs, dims)
        try:
            with torch.no_grad():
                function(*[t.clone() for t in data])
        except Exception as error:
            if number == 0:
                raise
            return "derived", f"PyTorch refuses sizes that the relations allow: {dims}: {str(error)[:200]}; {note}"
        for threads in (1, 3):
            results = run_seed(manifest, library, traced, data, dims, threads)
            problem = compare(traced, function, data, results)
            if problem:
                return "derived", f"{problem} (sizes {dims}, {threads} threads); {note}"
        tried += 1
    return "correct", f"{tried} sizes, {note}"


# ---------------------------------------------------------------------------------------------------------------------


def apart(body, limit: int):
    """Runs body() -> (stage, text) in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(limit)
        try:
            stage, text = body()
        except BaseException as error:
            lines = traceback.format_exc().strip().split("\n")
            where = [l.strip() for l in lines if "cultivar_import" in l and "File" in l]
            stage, text = "failed", f"{type(error).__name__}: {str(error)[:500]} | {where[-1] if where else ''}"
        os.write(write, f"{stage}\n{text}".encode())
        os.close(write)
        sys.stdout.flush()
        os._exit(0)
    os.close(write)
    data = b""
    while True:
        part = os.read(read, 65536)
        if not part:
            break
        data += part
    os.close(read)
    _, status = os.waitpid(child, 0)
    if not data:
        return "failed", f"the process ended with status {status}"
    stage, text = data.decode().split("\n", 1)
    return stage, text


def reduced(source: str, limit: int) -> str:
    """The module with smaller whole numbers at its top level."""
    tree = ast.parse(source)

    def smaller(v: int, name: str) -> int:
        if name == "batch_size":
            return min(v, 3)
        top = limit
        if re.search(r"length|depth|height|width|input_shape|image_size", name):
            top = limit // 2
        while v > top:
            v = v // 2
        return v

    class Change(ast.NodeTransformer):
        def __init__(self, name):
            self.name = name

        def visit_Constant(self, node):
            if type(node.value) is int and node.value > 1:
                return ast.copy_location(ast.Constant(smaller(node.value, self.name)), node)
            return node

    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            statement.value = Change(ast.unparse(statement.targets[0])).visit(statement.value)
    return ast.unparse(ast.fix_missing_locations(tree))


def problem(path: str, limit: int):
    source = open(path).read()
    error = None
    for top in (limit, 128, 512):
        space = {"__name__": "problem"}
        try:
            torch.manual_seed(1)
            exec(compile(reduced(source, top), path, "exec"), space)
            model = space["Model"](*space["get_init_inputs"]())
            inputs = space["get_inputs"]()
            if sum(t.numel() for t in inputs if isinstance(t, torch.Tensor)) > 3e7:
                break
            with torch.no_grad():
                model(*[t.clone() if isinstance(t, torch.Tensor) else t for t in inputs])
            break
        except Exception as e:
            error = e
    else:
        raise RuntimeError(f"the reduced problem does not run: {str(error)[:200]}")
    tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
    names = ["x"] if len(tensors) == 1 else [f"x{n}" for n in range(len(tensors))]
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout) or type(module).__name__.startswith("Dropout"):
            module.p = 0.0
    keys = [k for k in state]

    def function(*args):
        values = iter(args[: len(tensors)])
        given = [next(values) if isinstance(t, torch.Tensor) else t for t in inputs]
        parameters = dict(zip(keys, args[len(tensors):]))
        return torch.func.functional_call(model, parameters, tuple(given))

    def clean(k):
        return re.sub(r"\W", "_", k)

    return function, tensors + [state[k].detach() for k in keys], names + [clean(k) for k in keys]


def simple():
    r = torch.randn
    i = torch.randint
    yield "relu", lambda x: torch.relu(x), [r(5, 7)], ["x"]
    yield "matmul", lambda a, b: torch.relu(a @ b + 1), [r(5, 37), r(37, 9)], ["a", "b"]
    yield "linear3d", F.linear, [r(3, 5, 37), r(9, 37), r(9)], ["x", "weight", "bias"]
    yield "softmax", lambda x: torch.softmax(x, -1), [r(5, 67)], ["x"]
    yield "softmax1", lambda x: torch.softmax(x, 1), [r(5, 6, 7)], ["x"]
    yield "layernorm", lambda x, w, b: F.layer_norm(x, (16,), w, b), [r(3, 5, 16), r(16), r(16)], ["x", "weight", "bias"]
    yield "groupnorm", lambda x, w, b: F.group_norm(x, 4, w, b), [r(3, 8, 5, 6), r(8), r(8)], ["x", "weight", "bias"]
    yield "batchnorm", lambda x, m, v: F.batch_norm(x, m, v, training=True), [r(3, 8, 5, 6), r(8), torch.rand(8)], ["x", "m", "v"]
    yield "batchnorm_eval", lambda x, m, v: F.batch_norm(x, m, v), [r(3, 8, 5, 6), r(8), torch.rand(8)], ["x", "m", "v"]
    yield "instancenorm", lambda x: F.instance_norm(x), [r(3, 8, 5, 6)], ["x"]
    yield "conv1d", lambda x, w, b: F.conv1d(x, w, b, 2, 3, 2), [r(3, 4, 40), r(6, 4, 3), r(6)], ["x", "weight", "bias"]
    yield "conv2d", lambda x, w, b: F.relu(F.conv2d(x, w, b, 2, 1)), [r(3, 6, 9, 10), r(4, 6, 3, 3), r(4)], ["x", "weight", "bias"]
    yield "conv2d_groups", lambda x, w: F.conv2d(x, w, None, 1, (1, 2), (2, 1), 2), [r(3, 6, 9, 10), r(4, 3, 3, 3)], ["x", "weight"]
    yield "conv3d", lambda x, w: F.conv3d(x, w, None, 1, 1), [r(2, 3, 5, 6, 7), r(4, 3, 3, 3, 3)], ["x", "weight"]
    yield "convT1d", lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1, 1, 2), [r(2, 3, 9), r(3, 4, 3), r(4)], ["x", "weight", "bias"]
    yield "convT2d", lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), 1, 1, 2, (1, 2)), [r(2, 4, 5, 6), r(4, 3, 3, 3), r(6)], ["x", "weight", "bias"]
    yield "convT3d", lambda x, w: F.conv_transpose3d(x, w, None, 2, 1), [r(2, 3, 4, 4, 5), r(3, 4, 3, 3, 3)], ["x", "weight"]
    yield "maxpool", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), [r(2, 3, 8, 9)], ["x"]
    yield "maxpool_dilated", lambda x: F.max_pool2d(x, 3, 2, 1, 2, return_indices=True), [r(2, 3, 12, 14)], ["x"]
    yield "maxpool1d", lambda x: F.max_pool1d(x, 4, 2, 1, 3), [r(2, 3, 30)], ["x"]
    yield "avgpool", lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), [r(2, 3, 8, 9)], ["x"]
    yield "avgpool_padded", lambda x: F.avg_pool2d(x, 3, 2, 1, True, True), [r(2, 3, 8, 9)], ["x"]
    yield "avgpool3d", lambda x: F.avg_pool3d(x, 2), [r(2, 3, 8, 9, 6)], ["x"]
    yield "avgpool1d", lambda x: F.avg_pool1d(x, 4, 3, 1), [r(2, 3, 25)], ["x"]
    yield "adaptive", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), [r(2, 3, 8, 9)], ["x"]
    yield "adaptive1", lambda x: F.adaptive_avg_pool2d(x, 1), [r(2, 3, 8, 9)], ["x"]
    yield "adaptive_max", lambda x: F.adaptive_max_pool2d(x, (3, 4)), [r(2, 3, 8, 9)], ["x"]
    yield "sdpa", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [r(2, 3, 6, 8), r(2, 3, 7, 8), r(2, 3, 7, 8)], ["q", "k", "v"]
    yield "sdpa_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [r(2, 3, 7, 8)] * 3, ["q", "k", "v"]
    yield "cross_entropy", F.cross_entropy, [r(9, 6), i(0, 6, (9,))], ["x", "target"]
    yield "cumsum", lambda x: torch.cumsum(x, 1), [r(5, 70)], ["x"]
    yield "cumsum_reverse", lambda x: torch.cumsum(x.flip(1), dim=1).flip(1), [r(5, 70)], ["x"]
    yield "cumprod", lambda x: torch.cumprod(x, 1), [r(5, 7)], ["x"]
    yield "argmax", lambda x: torch.argmax(x, 1), [r(5, 7, 9)], ["x"]
    yield "argmin_last", lambda x: torch.argmin(x, -1), [r(5, 7, 39)], ["x"]
    yield "max_dim", lambda x: torch.max(x, 1), [r(5, 7, 9)], ["x"]
    yield "topk", lambda x: _ordered(x, -1, torch.topk(x, 3)), [r(5, 7, 9)], ["x"]
    yield "topk_smallest", lambda x: _ordered(x * 2, 1, torch.topk(x * 2, 2, 1, largest=False)), [r(5, 7, 9)], ["x"]
    yield "topk_ties", lambda x: torch.topk(x.round(), 2).values, [r(50, 9)], ["x"]
    yield "topk_router", _router, [r(5, 16), r(6, 16)], ["x", "w"]
    yield "sort", lambda x: _ordered(x, -1, torch.sort(x)), [r(5, 7, 9)], ["x"]
    yield "sort_falling", lambda x: _ordered(x, 1, torch.sort(x, dim=1, descending=True)), [r(5, 7, 9)], ["x"]
    yield "sort_stable", lambda x: torch.sort(x.round(), stable=True), [r(5, 40)], ["x"]
    yield "sort_integers", lambda n: torch.sort(n, stable=True), [i(0, 9, (5, 40))], ["n"]
    yield "argsort", lambda x: x.gather(1, torch.argsort(x, -1, True)), [r(5, 9)], ["x"]
    yield "min_dim_value", lambda x: torch.min(x, 2)[0], [r(5, 7, 9)], ["x"]
    yield "var_all", lambda x: (x.var(), x.mean(), x.std(1)), [r(5, 70)], ["x"]
    yield "prod", lambda x: torch.prod(x, 1), [r(5, 7)], ["x"]
    yield "norm", lambda x: x / torch.norm(x), [r(5, 70)], ["x"]
    yield "cat", lambda a, b: torch.cat([a, b * 2, a], 1), [r(5, 7), r(5, 4)], ["a", "b"]
    yield "stack", lambda a, b: torch.stack([a, b], 1), [r(5, 7), r(5, 7)], ["a", "b"]
    yield "pad", lambda x: F.pad(x, (1, 2, 3, 0), value=2.0), [r(5, 7)], ["x"]
    yield "pad_reflect", lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), [r(2, 3, 5, 7)], ["x"]
    yield "slice", lambda x: x[:, 1:-1:2] + 1, [r(5, 9)], ["x"]
    yield "select", lambda x: x[:, -1] * x[0], [r(5, 5, 9)], ["x"]
    yield "gather", lambda x, n: torch.gather(x, 1, n), [r(5, 9), i(0, 5, (5, 4))], ["x", "n"]
    yield "embedding", lambda n, w: F.embedding(n, w), [i(0, 5, (5, 4)), r(9, 6)], ["n", "weight"]
    yield "index", lambda x, n: x[n], [r(9, 6), i(0, 9, (4,))], ["x", "n"]
    yield "permute", lambda x: (x.permute(0, 2, 1).reshape(x.shape[0], -1) * 2).contiguous(), [r(3, 4, 5)], ["x"]
    yield "tril", lambda x: torch.tril(x @ x), [r(6, 6)], ["x"]
    yield "mask", lambda x, m: torch.cumsum(x * m, 1), [r(6, 6), r(6, 6) > 0], ["x", "m"]
    yield "gelus", lambda x: F.gelu(x) + F.gelu(x, approximate="tanh") + F.silu(x) + F.mish(x) + F.elu(x) + F.selu(x) + F.softplus(x), [r(60, 7) * 3], ["x"]
    yield "hard", lambda x: F.hardtanh(x) + F.hardsigmoid(x) + F.hardswish(x) + F.leaky_relu(x) + F.softsign(x) + F.relu6(x) + F.logsigmoid(x), [r(60, 7) * 3], ["x"]
    yield "losses", lambda x, y: (F.mse_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y), F.l1_loss(x, y)), [r(60, 7), r(60, 7)], ["x", "y"]
    yield "kl", lambda x, y: F.kl_div(torch.log(x), y, reduction="batchmean"), [torch.softmax(r(6, 7), 1), torch.softmax(r(6, 7), 1)], ["x", "y"]
    yield "triplet", lambda a, b, c: F.triplet_margin_loss(a, b, c), [r(6, 17), r(6, 17), r(6, 17)], ["a", "b", "c"]
    yield "einsum", lambda a, b: torch.einsum("bijl,lk->bijk", a, b), [r(2, 3, 4, 5), r(5, 6)], ["a", "b"]
    yield "outer", lambda a, b: a.unsqueeze(1) * b, [r(6), r(6, 5)], ["a", "b"]
    yield "diag", lambda a, b: torch.diag(a) @ b, [r(6), r(6, 5)], ["a", "b"]
    yield "upsample", lambda x: F.interpolate(x, scale_factor=2), [r(2, 3, 4, 5)], ["x"]
    yield "bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), [r(2, 3, 4, 5)], ["x"]
    yield "logsumexp", lambda x: torch.logsumexp(x, 1), [r(6, 17)], ["x"]
    yield "inplace", lambda x: _inplace(x), [r(6, 17)], ["x"]
    yield "matvec", lambda a, b: a @ b, [r(6, 300), r(300, 1)], ["a", "b"]
    yield "vector", lambda a, b: (a @ b, torch.dot(b, b)), [r(6, 300), r(300)], ["a", "b"]
    yield "big_sum", lambda x: x.sum((0, 2)), [r(6, 7, 300)], ["x"]
    yield "two", lambda x: (x + 1, x.view(-1), x), [r(6, 7)], ["x"]
    yield "mha", _mha(), [r(2, 5, 16), r(48, 16), r(48), r(16, 16), r(16)], ["x", "in_weight", "in_bias", "out_weight", "out_bias"]


def _ordered(x, dim, result):
    """Of equal values, which index comes first is open."""
    return result[0], x.gather(dim, result[1])


def _router(x, w):
    scores = torch.softmax(x @ w.t(), -1)
    values, experts = torch.topk(scores, 2)
    return values / values.sum(-1, keepdim=True), scores.gather(1, experts.to(torch.int32).long())


def _inplace(x):
    y = x.clone()
    y[:, 2:5] = 0
    y[1] += 3
    y.mul_(2)
    return y


def _mha():
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    names = [n for n, _ in module.named_parameters()]
    return lambda x, *p: torch.func.functional_call(module, dict(zip(names, p)), (x, x, x))[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernelbench")
    parser.add_argument("--level", type=int)
    parser.add_argument("--only")
    parser.add_argument("--nvcc", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--limit", type=int, default=240)
    parser.add_argument("--top", type=int, default=32, help="numbers of a problem are halved until they are no larger")
    parser.add_argument("--derive", action="store_true", help="derive the seeds, run nothing")
    parser.add_argument("--part", help="I/N: only every N-th problem")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts: dict = {}
    # What a child would have to import anew.
    trace(lambda x: torch.softmax(x, 1), [torch.randn(2, 3)], ["x"])

    def report(name, stage, text):
        counts[stage] = counts.get(stage, 0) + 1
        print(f"{name}: {stage}: {text}", flush=True)

    if options.kernelbench:
        for level in [options.level] if options.level else [1, 2, 3]:
            paths = glob.glob(os.path.join(options.kernelbench, f"level{level}", "*.py"))
            for path in sorted(paths, key=lambda p: int(os.path.basename(p).split("_")[0])):
                name = f"{level}/{os.path.basename(path)[:-3]}"
                if options.only and not re.search(options.only, name):
                    continue
                if options.part:
                    part, parts = map(int, options.part.split("/"))
                    if int(os.path.basename(path).split("_")[0]) % parts != part:
                        continue

                def body():
                    return check(*problem(path, options.top), show=options.show, nvcc=options.nvcc, run=not options.derive)

                report(name, *apart(body, options.limit))
    else:
        for name, function, inputs, names in simple():
            if options.only and not re.search(options.only, name):
                continue
            report(name, *apart(lambda: check(function, inputs, names, options.show, options.nvcc), options.limit))
    print(counts)
    if not options.kernelbench and set(counts) - {"correct"}:
        sys.exit(1)


if __name__ == "__main__":
    main()
