# SPDX-License-Identifier: Apache-2.0
"""Proves on this machine what the package in this folder gains on the whole model, and that its results are right. Needs PyTorch 2,
numpy, CMake and a C++ compiler; nothing of Cultivar.

    python verify.py [--seconds 20] [--whole] [--every] [--json]      exit code 0: the results are right (faster or not, it says); 1: they are not
"""

import argparse
import copy
import importlib
import json
import math
import os
import pathlib
import random
import statistics
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
MOST_ERROR = 1.5  # rms error of the patched model over that of the baseline, both against f64, which is still right
ERROR_FLOOR = 64 * 2.0**-24  # of the root mean square of the exact result: errors below do not count


def loaded():
    """The package, the model's file and the function that draws inputs."""
    sys.path[:0] = [str(HERE.parent), str(HERE / "source")]
    sys.dont_write_bytecode = True
    fast = importlib.import_module(HERE.name)
    facts = fast.facts()
    whole, (module, function) = importlib.import_module("whole_model"), facts["inputs"]
    return fast, facts, whole, getattr(importlib.import_module(module), function)


def made(whole, expression):
    """The model as the campaign measured it."""
    torch.manual_seed(0)
    model = getattr(whole, expression.split(".")[1].split("(")[0])
    built = model() if expression.endswith("()") else copy.deepcopy(model)
    return getattr(built, "_orig_mod", built).eval().requires_grad_(False)  # what torch.compile was given


def drawn(function, seed):
    torch.manual_seed(seed)
    values = function()
    return ((), values) if isinstance(values, dict) else ((values,) if isinstance(values, torch.Tensor) else tuple(values), {})


def leaves(result):
    return [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.dtype.is_floating_point]


def errors(models, exact_model, function, fresh, many=3):
    """{name: {"rms": the worst error against f64, relative to the exact result, and for language models "kl", the mean divergence
    from the exact distribution, and "top1", the share of tokens with the same likeliest one}}, on inputs that were drawn now."""
    from importlib import import_module
    exact = import_module(HERE.name + ".exact")
    worst = {name: {"rms": 0.0} for name in models}
    for _ in range(many):
        args, kwargs = drawn(function, fresh())
        lifted = torch.utils._pytree.tree_map(lambda v: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v,
                                              (args, kwargs))
        with exact._careful(), exact.Lifted():
            right = leaves(exact_model(*lifted[0], **lifted[1]))
        tokens = [t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and not t.is_floating_point()]
        for name, model in models.items():
            said = worst[name]
            with torch.no_grad():
                for got, want in zip(leaves(model(*args, **kwargs)), right):
                    size = float(want.square().mean().sqrt()) or 1.0
                    error = float((got.double() - want).square().mean().sqrt()) / size
                    said["rms"] = max(said["rms"], error if math.isfinite(error) else math.inf)
                    if want.dim() == 3 and any(t.shape == want.shape[:2] for t in tokens):  # logits of tokens
                        p, q = torch.log_softmax(want, -1), torch.log_softmax(got.double(), -1)
                        said["kl"] = max(said.get("kl", 0.0), float((p.exp() * (p - q)).sum(-1).mean()))
                        said["top1"] = min(said.get("top1", 1.0), float((want.argmax(-1) == got.argmax(-1)).double().mean()))
    return worst


def seconds_of(work, on_gpu):
    if not on_gpu:
        begin = time.perf_counter()
        with torch.no_grad():
            work()
        return time.perf_counter() - begin
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.compiler.cudagraph_mark_step_begin()
    torch.cuda.synchronize()
    begin.record()
    with torch.no_grad():
        work()
    end.record()
    end.synchronize()
    return 1e-3 * begin.elapsed_time(end)


def timed(call, inputs):
    return seconds_of(lambda: call(*inputs[0], **inputs[1]),
                      any(isinstance(t, torch.Tensor) and t.is_cuda for t in torch.utils._pytree.tree_leaves(inputs)))


def fastest(candidates, function, fresh, rounds=5):
    """The name of the candidate with the least median time, and the medians."""
    samples = {name: [] for name in candidates}
    for name, call in candidates.items():
        for _ in range(3):
            timed(call, drawn(function, fresh()))
    for _ in range(rounds):
        inputs = drawn(function, fresh())
        for name in random.sample(list(candidates), len(candidates)):
            samples[name].append(timed(candidates[name], inputs))
    medians = {name: statistics.median(s) for name, s in samples.items()}
    return min(medians, key=medians.get), medians


def gain(baseline, patched, function, fresh, seconds):
    """Blocks of one run of each, in random order, on inputs that were drawn now: the ratio of their times with its 95 % interval."""
    logs, pairs, end = [], [], time.perf_counter() + seconds
    while len(logs) < 10 or (time.perf_counter() < end and len(logs) < 400):
        inputs, times = drawn(function, fresh()), {}
        for name, call in random.sample([("baseline", baseline), ("patched", patched)], 2):
            times[name] = timed(call, inputs)
        logs.append(math.log(times["baseline"] / times["patched"]))
        pairs.append((times["baseline"], times["patched"]))
    logs.sort()
    # The median and an interval of order statistics, by the normal approximation of the sign test.
    n = len(logs)
    reach = math.ceil(0.98 * math.sqrt(n))
    middle = statistics.median(logs)
    low, high = logs[max(0, n // 2 - reach)], logs[min(n - 1, n // 2 + reach)]
    return {"ratio": math.exp(middle), "low": math.exp(low), "high": math.exp(high), "blocks": n,
            "baseline_ms": 1e3 * statistics.median(b for b, _ in pairs), "patched_ms": 1e3 * statistics.median(p for _, p in pairs)}


def call_of(swap, run):
    """The tensors of one call in a pass of the model, which run() makes; empty: it makes none that is the kernel's."""
    caught = []

    def forward(*args, **kwargs):
        tensors, why = swap.fits(args, kwargs)
        if not why:
            caught[:] = [t.clone() for t in tensors]
        return type(swap).forward(swap, *args, **kwargs)

    swap.forward = forward
    try:
        with torch.no_grad():
            run()
    finally:
        del swap.forward
    return caught


def kernel_ms(fast, region, graphs, run, rounds=30):
    """What the kernel of a region takes for all calls of a pass, by calls one after the other with nothing between them, with tensors
    that run(), a pass of the patched model, has; None: it is not in the model. graphs: without the time of the host, as in a CUDA graph."""
    swap = next((s for s in fast._swaps if s.region["name"] == region["name"]), None)
    tensors = call_of(swap, run) if swap else []
    if not tensors:
        return None
    on_gpu = region["device"] == "cuda"
    many, handle = 20 if on_gpu else 1, swap.handle
    if graphs and fast.MASK in swap.tensors:  # as a graph calls it
        tensors, handle = swap.without_mask(tensors)

    def work():
        for _ in range(many):
            swap.operator(tensors, handle)

    seconds_of(work, on_gpu)  # the first call is compared
    if graphs:
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            work()
        work = graph.replay
    return 1e3 * statistics.median(seconds_of(work, on_gpu) for _ in range(rounds)) / many * region["calls"]


def predictions(facts, kernels, medians, best, mine):
    """Of the whole model and of each region: the time of the fastest baseline over what is left of it, if what the region cost in the
    profile of the model is replaced by the time of its kernel. The profile's times are scaled to today's machine."""
    total, scale = 1e3 * medians[best], 1e3 * medians[best] / facts["ms"]
    gains = {r["name"]: r["ms"] * scale - kernels[r["name"]] for r in facts["regions"] if kernels[r["name"]] is not None}
    before = 1e3 * medians.get(mine, medians[best])  # a model that is patched may be fastest another way
    ratio = lambda start, gain: total / max(start - gain, 0.01 * total)
    return ratio(before, sum(gains.values())), {name: ratio(before, gain) for name, gain in gains.items()}


# The ways to run a model, by the device; None: as it is.
WAYS = {"cpu": {"eager": None, "torch.compile": {}},
        "cuda": {"eager": None, "torch.compile": {}, "torch.compile with graphs": {"mode": "reduce-overhead"},
                 "torch.compile with max-autotune": {"mode": "max-autotune"}}}


def ways(model, device, function, fresh, say, names=None):
    """{name: a callable of the model}, of those that run."""
    found = {}
    for name, options in WAYS[device].items():
        if names is None or name in names:
            try:
                found[name] = model if options is None else torch.compile(model, dynamic=False, **options)
                for _ in range(3):
                    timed(found[name], drawn(function, fresh()))
            except Exception as problem:
                found.pop(name, None)
                say("%s does not run: %s" % (name, " ".join(str(problem).split())[:200]))
    return found


def proof(seconds, say, by_region=True, every=False):
    fast, facts, whole, plain_function = loaded()
    device = facts["device"]
    torch.set_num_threads(facts["threads"])

    def function():
        return torch.utils._pytree.tree_map(lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, plain_function())

    seeds = random.SystemRandom()
    fresh = lambda: seeds.randrange(1 << 60)
    fast.build(say)
    plain = made(whole, facts["build"]).to(device)
    patched = copy.deepcopy(plain)
    count = fast.enable(patched)
    say("%d modules and functions are replaced" % count)
    exact_model = copy.deepcopy(plain).double()
    error = errors({"baseline": plain, "patched": patched}, exact_model, function, fresh)
    say("errors %.3g (baseline %.3g); the ways to run both" % (error["patched"]["rms"], error["baseline"]["rms"]))
    candidates = ways(plain, device, function, fresh, say, None if every else facts["ways"])
    own = ways(patched, device, function, fresh, say, None if every else {"eager", "torch.compile", *facts["ways"]})
    best, medians = fastest(candidates, function, fresh)
    mine, own_medians = fastest(own, function, fresh)
    say("the fastest baseline is %s, and the patched model is fastest with %s" % (best, mine))
    measured = gain(candidates[best], own[mine], function, fresh, seconds)
    # What was timed is checked once more, on inputs that nothing saw before, and on those of holdout(), if the inputs' file has it.
    held = getattr(sys.modules[facts["inputs"][0]], "holdout", None)
    holdout = function if held is None else lambda: torch.utils._pytree.tree_map(
        lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, held())
    final = errors({"baseline": candidates[best], "patched": own[mine]}, exact_model, holdout, fresh)
    right = count > 0 and all(e["patched"]["rms"] <= max(MOST_ERROR * e["baseline"]["rms"], ERROR_FLOOR) for e in (error, final))
    report, kernel_calls = fast.report(), sum(w.get("kernel", 0) for w in fast.counters().values())
    say("the kernels by themselves")
    args, kwargs = drawn(function, fresh())
    kernels = {r["name"]: kernel_ms(fast, r, "graphs" in mine or "autotune" in mine, lambda: patched(*args, **kwargs))
               for r in facts["regions"]}
    predicted, by_itself = predictions(facts, kernels, medians, best, mine)
    regions = {}
    for region in facts["regions"]:
        if len(facts["regions"]) == 1 or not by_region:
            regions[region["name"]] = measured if len(facts["regions"]) == 1 else None
            continue
        fast.disable()
        alone = copy.deepcopy(plain)
        if fast.enable(alone, only=[region["name"]]):
            torch._dynamo.reset()
            say("the gain of %s by itself" % region["name"])
            pair = ways(plain, device, function, fresh, say, [best]), ways(alone, device, function, fresh, say, [mine])
            if all(pair):
                regions[region["name"]] = gain(pair[0][best], pair[1][mine], function, fresh, seconds / len(facts["regions"]))
    fast.disable()
    return {"right": right and kernel_calls > 0, "baseline": best, "patched": mine, "device": device, "threads": facts["threads"],
            "torch": torch.__version__, "error": max(error["patched"]["rms"], final["patched"]["rms"]),
            "baseline_error": max(error["baseline"]["rms"], final["baseline"]["rms"]), "errors": error, "holdout_errors": final,
            "did_not_run": [n for n in WAYS[device] if n not in candidates and (every or n in facts["ways"])],
            "baselines_ms": {n: 1e3 * t for n, t in medians.items()}, "patched_ms": {n: 1e3 * t for n, t in own_medians.items()},
            "measured": measured, "predicted": predicted, "kernel_calls": kernel_calls, "report": report,
            "regions": {r["name"]: {"predicted": by_itself.get(r["name"]), "kernel_ms": kernels[r["name"]],
                                    "measured": regions.get(r["name"])} for r in facts["regions"]}}


def times(ratio):
    """A ratio of speeds as Cultivar writes it: 1.49x, 1.004x, 12.3x."""
    return "%.*fx" % (0 if ratio >= 100.0 else 1 if ratio >= 10.0 else 2 if ratio >= 1.1 or ratio < 0.9 else 3, ratio)


def words(p):
    m = p["measured"]
    verdict = "faster" if m["low"] > 1.0 else "slower" if m["high"] < 1.0 else "neither faster nor slower by these blocks"
    return "\n".join([
        "The results are %s: rms error against f64 %.3g of the exact result's root mean square, the baseline's %.3g." % (
            "right" if p["right"] else "WRONG", p["error"], p["baseline_error"]),
        "The patched model (%s) is %s than the fastest baseline (%s): %s (95 %%: %s - %s, %d blocks), %.3g ms and %.3g ms." % (
            p["patched"], verdict, p["baseline"], *map(times, (m["ratio"], m["low"], m["high"])), m["blocks"], m["patched_ms"], m["baseline_ms"])
        if "neither" not in verdict else
        "The patched model (%s) is %s; the fastest baseline is %s: %s (95 %%: %s - %s, %d blocks), %.3g ms and %.3g ms." % (
            p["patched"], verdict, p["baseline"], *map(times, (m["ratio"], m["low"], m["high"])), m["blocks"], m["patched_ms"], m["baseline_ms"]),
        "Predicted from the time of each kernel by itself: %s." % times(p["predicted"])] + [
        "%s does not run here, so this is not beside it." % name for name in p["did_not_run"]] + [
        "  %s: predicted %s, measured by itself %s." % (name, times(r["predicted"]) if r["predicted"] else "nothing, it is not in the model",
            "%s (%s - %s)" % tuple(times(r["measured"][k]) for k in ("ratio", "low", "high")) if r["measured"] else "not")
        for name, r in p["regions"].items()] + [
        "Beside f64, %s: KL divergence %.3g, the same likeliest token for %.2f %%." % (name, e["kl"], 100 * e["top1"])
        for name, e in p["holdout_errors"].items() if "kl" in e] + [p["report"]])


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--seconds", type=float, default=20.0, help="of timed blocks")
    options.add_argument("--whole", action="store_true", help="only the whole model, not each region by itself")
    options.add_argument("--every", action="store_true", help="also baselines that were far from the fastest in the profile")
    options.add_argument("--json", action="store_true")
    options = options.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    done = proof(options.seconds, lambda text: print(text, file=sys.stderr, flush=True), not options.whole, options.every)
    print(json.dumps(done) if options.json else words(done))
    return 0 if done["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
