# SPDX-License-Identifier: Apache-2.0
"""Times of a whole model: the user's baselines, its regions, and what the machine could do. On a GPU by events of the device."""

import bisect
import contextlib
import copy
import statistics
import time

import torch
from torch.utils.flop_counter import FlopCounterMode

from .fast_package import MASK
from .refusal import brief


class Times:
    """Seconds of repeated runs."""

    def __init__(self, samples):
        self.samples = sorted(samples)
        self.median = statistics.median(self.samples)
        self.low, self.high = (self.samples[int(q * (len(self.samples) - 1))] for q in (0.25, 0.75))

    def facts(self):
        return {"ms": 1e3 * self.median, "q1_ms": 1e3 * self.low, "q3_ms": 1e3 * self.high, "samples": len(self.samples)}


def once(work, device):
    """Seconds of one run of `work`."""
    if device == "cpu":
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    work()
    end.record()
    end.synchronize()
    return 1e-3 * begin.elapsed_time(end)


def timed(work, seconds=0.5, least=5, most=60, device="cpu"):
    """Times of `work`, for about that many seconds."""
    work()
    samples, end = [], time.perf_counter() + seconds
    while len(samples) < least or (len(samples) < most and time.perf_counter() < end):
        samples.append(once(work, device))
    return Times(samples)


AUTOTUNED = "torch.compile with max-autotune"
# The user's choices: name, and what makes a callable of the model.
BASELINES = {
    "cpu": {"eager": None, "torch.compile": {}},
    "cuda": {"eager": None, "torch.compile": {}, "torch.compile with graphs": {"mode": "reduce-overhead"},
             AUTOTUNED: {"mode": "max-autotune"}},
}


def compiled(module, options):
    return module if options is None else torch.compile(module, dynamic=False, **options)


def baselines(model, draw, say, device, left_out=None, seconds=4.0, rounds=40):
    """{name: Times, or the reason why it does not run}, interleaved in changing order, with new inputs in each round, and {name: the
    callable} of those that run. `left_out`: {name: reason}."""
    ready, found = {}, dict(left_out or {})
    with torch.no_grad():
        for name, options in BASELINES[device].items():
            if name in found:
                continue
            say(f"baseline {name}")
            try:
                call = compiled(model, options)
                args, kwargs = draw(1)
                for _ in range(3):
                    call(*args, **kwargs)
                ready[name] = call
            except Exception as error:
                found[name] = f"it does not run: {brief(error, 160)}"
        samples = {name: [] for name in ready}
        end = time.perf_counter() + seconds * max(1, len(ready))
        for k in range(rounds):
            if k >= 5 and time.perf_counter() > end:
                break
            args, kwargs = draw(1000 + k)
            order = list(ready) if k % 2 else list(ready)[::-1]
            for name in order:
                samples[name].append(once(lambda: ready[name](*args, **kwargs), device))
    found.update({name: Times(s) for name, s in samples.items()})
    return found, ready


def device_seconds(calls, draw):
    """{name: seconds in which kernels of one call run}: on a GPU the host may be slower than these, most of all in an eager model."""
    args, kwargs = draw(1)
    with torch.no_grad():
        return {name: kernel_seconds(lambda: call(*args, **kwargs)) for name, call in calls.items()}


def by_ranges(model, args, kwargs, regions, watched, device, seconds=3.0):
    """Sets `times` of each region, of all its calls in a pass together, in the eager model: on the CPU by a clock around each call, on a
    GPU the time of the kernels that the calls launch, by torch.profiler. `watched(enter, leave)`: a context in which these are called
    with the path around each call."""
    owner = {path: [] for region in regions for path in region.paths}
    for region in regions:
        for path in region.paths:
            owner[path].append(region)
    # A module that is called with different sizes belongs to several regions, which share its time by their calls.
    sums, open_ones = {}, {path: [] for path in owner}

    def enter(path):
        if path in open_ones:
            if device == "cpu":
                open_ones[path].append(time.perf_counter())
            else:
                open_ones[path].append(torch.profiler.record_function(RANGE + path))
                open_ones[path][-1].__enter__()

    def leave(path):
        if path in open_ones and open_ones[path]:
            began = open_ones[path].pop()
            if device == "cpu":
                sums[path] = sums.get(path, 0.0) + time.perf_counter() - began
            else:
                began.__exit__(None, None, None)

    def one_pass():
        sums.clear()
        if device == "cpu":
            model(*args, **kwargs)
            return
        kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=kinds) as profile:
            model(*args, **kwargs)
            torch.cuda.synchronize()
        for event in profile.key_averages():
            if event.key.startswith(RANGE) and event.device_type == torch.autograd.DeviceType.CPU:
                sums[event.key[len(RANGE):]] = 1e-6 * event.device_time_total

    samples = {id(region): [] for region in regions}
    with torch.no_grad(), watched(enter, leave):
        one_pass()
        passes, end = 0, time.perf_counter() + seconds
        while passes < 5 or (passes < 40 and time.perf_counter() < end):
            one_pass()
            passes += 1
            for region in regions:
                samples[id(region)].append(sum(
                    sums.get(p, 0.0) * region.at[p] / sum(r.at[p] for r in owner[p]) for p in region.at))
    for region in regions:
        region.times = Times(samples[id(region)])


RANGE = "cultivar: "


def kernel_seconds(work, runs=5):
    """On a GPU: what the kernels of one run take, without the gaps between them."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(runs):
            work()
        torch.cuda.synchronize()
    return 1e-6 * sum(e.self_device_time_total for e in profile.key_averages()) / runs


def compiled_alone(region, options, device):
    """Times of one call of a region that torch.compile has compiled by itself; None where it cannot."""
    try:
        with torch.no_grad():
            torch._dynamo.reset()
            call = compiled(region.part.module, options)
            work = lambda: call(**region.arguments)
            return timed(work, 0.4) if device == "cpu" else Times(kernel_seconds(work) for _ in range(3))
    except Exception:
        return None
    finally:
        torch._dynamo.reset()


_library, _given = [], []  # what keeps the operator, and what it returns


def _for_nothing(results):
    """An operator that a compiler cannot look into, which returns these tensors."""
    if not _library:
        library = torch.library.Library("cultivar_import", "FRAGMENT")
        library.define("given(Tensor[] tensors) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
        for key in ("CPU", "CUDA"):
            library.impl("given", lambda tensors: list(_given), key)
        torch.library.register_fake("cultivar_import::given", lambda tensors: [
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in _given], lib=library)
        _library.append(library)
    _given[:] = results
    return torch.ops.cultivar_import.given.default


@contextlib.contextmanager
def _costless(model, region):
    """A copy of the model in which the calls of a region take no time, and a list: its element says whether they do, if the region is a
    function. A mask costs nothing either then, since kernels do without it."""
    operator = _for_nothing([t for t in torch.utils._pytree.tree_leaves(region.result) if isinstance(t, torch.Tensor)])
    other, free, known = copy.deepcopy(model), [False], region.known

    def given(arguments):
        results = operator([t for t in arguments if isinstance(t, torch.Tensor)])
        return results[0] if isinstance(region.result, torch.Tensor) else tuple(results)

    if known is None:
        for path in region.paths:
            other.get_submodule(path).forward = lambda *args, **kwargs: given((*args, *kwargs.values()))
        yield other, free
        return
    names, shapes = list(known.signature.parameters), {n: tuple(t.shape) for n, t in region.tensors().items()}

    def door(*args, **kwargs):
        if free[0]:
            arguments = dict(zip(names, args))
            arguments.update(kwargs)
            if {n: tuple(t.shape) for n, t in arguments.items() if isinstance(t, torch.Tensor)} == shapes:
                return given([t for n, t in arguments.items() if n != MASK])
        return known.original(*args, **kwargs)

    setattr(known.owner, known.name, door)
    try:
        yield other, free
    finally:
        setattr(known.owner, known.name, known.original)


def without(model, region, options, draw, device, pairs=15):
    """What the compiled model saves if the calls of a region take no time, in seconds of a pass: less than a module takes by itself where
    it is fused with what is around it, more than a function where something is computed for it alone."""
    torch._dynamo.reset()
    try:
        with _costless(model, region) as (other, free), torch.no_grad():
            calls, saved = [compiled(m, options) for m in (model, other)], []
            for k in range(pairs + 3):
                args, kwargs = draw(2000 + k)
                spent = [0.0, 0.0]
                for which in ((0, 1) if k % 2 else (1, 0)):
                    free[0] = which == 1
                    spent[which] = once(lambda: calls[which](*args, **kwargs), device)
                saved.append(spent[0] - spent[1])
        return Times(saved[3:])
    finally:
        _given.clear()
        torch._dynamo.reset()


def attention_flops(query, key, value, *_, out_shape=None, **__):
    """Operations of a fused attention by the shapes of its tensors; PyTorch's own count refuses fewer heads of keys than of queries."""
    batch, heads, queries, depth = query
    return 2 * batch * heads * queries * key[2] * (depth + value[3])


ATTENTION = {getattr(torch.ops.aten, f"_scaled_dot_product_{kind}_attention"): attention_flops for kind in ("efficient", "flash", "cudnn")}


class Machine:
    """What this machine does at best: copies of memory that was just used, by size, and products in the model's dtype."""

    def __init__(self, device="cpu", dtype=torch.float32):
        self.device, self.dtype = device, dtype
        self.SIZES = [1 << k for k in range(14, 28 if device == "cpu" else 31, 2)]
        self.copies = []
        for size_of in self.SIZES:
            one = torch.zeros(size_of // 8, device=device)  # bytes are read and as many written
            two = torch.ones_like(one)
            self.copies.append(min(timed(lambda: one.copy_(two), 0.05, 20, 200, device).samples))
        size = 1024 if device == "cpu" else 8192
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        out = torch.empty(size, size, device=device, dtype=dtype)
        self.flops = 2.0 * size**3 / min(timed(lambda: torch.mm(a, b, out=out), 0.5, 5, device=device).samples)

    def copy_seconds(self, count):
        """The time for `count` bytes of traffic."""
        k = min(max(1, bisect.bisect_left(self.SIZES, count)), len(self.SIZES) - 1)
        small, large = self.SIZES[k - 1], self.SIZES[k]
        if count <= small:
            return self.copies[k - 1] * count / small
        slope = (self.copies[k] - self.copies[k - 1]) / (large - small)
        return self.copies[k - 1] + max(slope, 0.0) * (count - small)

    def floor(self, region):
        """Seconds that one call of the region needs at least, and of what: "copy" or "products"."""
        with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter:
            region.part.module(**region.arguments)
        traffic, products = self.copy_seconds(region.bytes()), region.needed(counter.get_total_flops()) / self.flops
        return max(traffic, products), "products" if products > traffic else "copy"

    def facts(self):
        return {"gflops": self.flops / 1e9, "dtype": str(self.dtype)[6:],
                "copy_gb_s": {str(s): s / t / 1e9 for s, t in zip(self.SIZES, self.copies)}}


def operators(model, args, kwargs, device, most=12):
    """The operators in which an eager pass spends its time: (name, share of the time, on a GPU that of the device)."""
    kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * (device == "cuda")
    with torch.no_grad(), torch.profiler.profile(activities=kinds) as profile:
        model(*args, **kwargs)
    rows = [(e.key, e.self_cpu_time_total if device == "cpu" else e.self_device_time_total) for e in profile.key_averages()
            if e.key.startswith("aten::")]
    total = sum(t for _, t in rows) or 1.0
    return [(name, t / total) for name, t in sorted(rows, key=lambda r: -r[1])[:most]]
