# SPDX-License-Identifier: Apache-2.0
"""Times of a whole model on the CPU: the user's baselines, its regions, and what the machine could do."""

import bisect
import statistics
import time

import torch
from torch.utils.flop_counter import FlopCounterMode

from .refusal import brief


class Times:
    """Seconds of repeated runs."""

    def __init__(self, samples):
        self.samples = sorted(samples)
        self.median = statistics.median(self.samples)
        self.low, self.high = (self.samples[int(q * (len(self.samples) - 1))] for q in (0.25, 0.75))

    def facts(self):
        return {"ms": 1e3 * self.median, "q1_ms": 1e3 * self.low, "q3_ms": 1e3 * self.high, "samples": len(self.samples)}


def timed(work, seconds=0.5, least=5, most=60):
    """Times of `work`, for about that many seconds."""
    work()
    samples, end = [], time.perf_counter() + seconds
    while len(samples) < least or (len(samples) < most and time.perf_counter() < end):
        begin = time.perf_counter()
        work()
        samples.append(time.perf_counter() - begin)
    return Times(samples)


# The user's choices on a CPU: name, and what makes a callable of the model.
BASELINES = (("eager", lambda model: model), ("torch.compile", lambda model: torch.compile(model, dynamic=False)))


def baselines(model, draw, say, seconds=4.0, rounds=40):
    """{name: Times, or the reason why it does not run}, interleaved in changing order, with new inputs in each round."""
    ready, found = {}, {}
    with torch.no_grad():
        for name, make in BASELINES:
            say(f"baseline {name}")
            try:
                call = make(model)
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
                begin = time.perf_counter()
                ready[name](*args, **kwargs)
                samples[name].append(time.perf_counter() - begin)
    found.update({name: Times(s) for name, s in samples.items()})
    return found


def by_hooks(model, args, kwargs, regions, seconds=3.0):
    """Sets `times` of each region, of all its calls in a pass together, in the eager model."""
    owner = {path: [] for region in regions for path in region.paths}
    for region in regions:
        for path in region.paths:
            owner[path].append(region)
    # A module that is called with different sizes belongs to several regions, which share its time by their calls.
    sums = {path: 0.0 for path in owner}
    handles = []
    for path in owner:
        module = model.get_submodule(path)
        begun = []
        handles.append(module.register_forward_pre_hook(lambda *_, begun=begun: begun.append(time.perf_counter()), prepend=True))

        def after(*_, begun=begun, path=path):
            sums[path] += time.perf_counter() - begun.pop()

        handles.append(module.register_forward_hook(after))
    samples = {id(region): [] for region in regions}
    end = time.perf_counter() + seconds
    try:
        with torch.no_grad():
            model(*args, **kwargs)
            passes = 0
            while passes < 5 or (passes < 40 and time.perf_counter() < end):
                sums.update((path, 0.0) for path in sums)
                model(*args, **kwargs)
                passes += 1
                for region in regions:
                    samples[id(region)].append(sum(
                        sums[p] * region.at[p] / sum(r.at[p] for r in owner[p]) for p in region.at))
    finally:
        for handle in handles:
            handle.remove()
    for region in regions:
        region.times = Times(samples[id(region)])


def compiled_alone(region):
    """Times of one call of a region that torch.compile has compiled by itself; None where it cannot."""
    try:
        with torch.no_grad():
            torch._dynamo.reset()
            call = torch.compile(region.part.module, dynamic=False)
            return timed(lambda: call(**region.arguments), 0.4)
    except Exception:
        return None
    finally:
        torch._dynamo.reset()


class Machine:
    """What this machine does at best: copies of memory that was just used, by size, and products in f32."""

    SIZES = [1 << k for k in range(14, 28, 2)]

    def __init__(self, size=1024):
        self.copies = []
        for size_of in self.SIZES:
            one = torch.zeros(size_of // 8)  # bytes are read and as many written
            two = torch.ones_like(one)
            self.copies.append(min(timed(lambda: one.copy_(two), 0.05, 20, 200).samples))
        a, b = torch.randn(size, size), torch.randn(size, size)
        out = torch.empty(size, size)
        self.flops = 2.0 * size**3 / min(timed(lambda: torch.mm(a, b, out=out), 0.5, 5).samples)

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
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            region.part.module(**region.arguments)
        traffic, products = self.copy_seconds(region.bytes()), counter.get_total_flops() / self.flops
        return max(traffic, products), "products" if products > traffic else "copy"

    def facts(self):
        return {"gflops": self.flops / 1e9, "copy_gb_s": {str(s): s / t / 1e9 for s, t in zip(self.SIZES, self.copies)}}


def operators(model, args, kwargs, most=12):
    """The operators in which an eager pass spends its time: (name, share of the time)."""
    with torch.no_grad(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        model(*args, **kwargs)
    rows = [(e.key, e.self_cpu_time_total) for e in profile.key_averages() if e.key.startswith("aten::")]
    total = sum(t for _, t in rows) or 1.0
    return [(name, t / total) for name, t in sorted(rows, key=lambda r: -r[1])[:most]]
