# SPDX-License-Identifier: Apache-2.0
"""Proves on this machine what the package in this folder gains on the whole model, and that its results are right. Needs PyTorch 2,
numpy, CMake and a C++ compiler; nothing of Cultivar.

    python verify.py [--seconds 20] [--json]      exit code 0: the results are right (faster or not, it says); 1: they are not
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
    return (model() if expression.endswith("()") else copy.deepcopy(model)).eval().requires_grad_(False)


def drawn(function, seed):
    torch.manual_seed(seed)
    values = function()
    return ((), values) if isinstance(values, dict) else ((values,) if isinstance(values, torch.Tensor) else tuple(values), {})


def leaves(result):
    return [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.dtype.is_floating_point]


def errors(models, exact_model, function, fresh, many=3):
    """{name: the worst rms error against f64, relative to the exact result}, on inputs that were drawn now."""
    from importlib import import_module
    exact = import_module(HERE.name + ".exact")
    worst = {name: 0.0 for name in models}
    for _ in range(many):
        args, kwargs = drawn(function, fresh())
        lifted = torch.utils._pytree.tree_map(lambda v: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v,
                                              (args, kwargs))
        with exact._careful(), exact.Lifted():
            right = leaves(exact_model(*lifted[0], **lifted[1]))
        for name, model in models.items():
            with torch.no_grad():
                for got, want in zip(leaves(model(*args, **kwargs)), right):
                    size = float(want.square().mean().sqrt()) or 1.0
                    error = float((got.double() - want).square().mean().sqrt()) / size
                    worst[name] = max(worst[name], error if math.isfinite(error) else math.inf)
    return worst


def timed(call, inputs):
    begin = time.perf_counter()
    with torch.no_grad():
        call(*inputs[0], **inputs[1])
    return time.perf_counter() - begin


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


def proof(seconds, say):
    fast, facts, whole, function = loaded()
    torch.set_num_threads(facts["threads"])
    seeds = random.SystemRandom()
    fresh = lambda: seeds.randrange(1 << 60)
    fast.build(say)
    plain = made(whole, facts["build"])
    patched = copy.deepcopy(plain)
    count = fast.enable(patched)
    expected = sum(len(r["paths"]) for r in facts["regions"])
    say("%d of %d modules are replaced" % (count, expected))
    error = errors({"baseline": plain, "patched": patched}, copy.deepcopy(plain).double(), function, fresh)
    right = count == expected and error["patched"] <= max(MOST_ERROR * error["baseline"], ERROR_FLOOR)
    candidates, own = {"eager": plain}, {"eager": patched}
    say("errors %.3g (baseline %.3g); torch.compile" % (error["patched"], error["baseline"]))
    for name, model, into in (("torch.compile", plain, candidates), ("torch.compile", patched, own)):
        try:
            compiled = torch.compile(model, dynamic=False)
            timed(compiled, drawn(function, fresh()))
            into[name] = compiled
        except Exception as problem:
            say("torch.compile does not run: %s" % " ".join(str(problem).split())[:200])
    best, medians = fastest(candidates, function, fresh)
    mine, own_medians = fastest(own, function, fresh)
    say("the fastest baseline is %s, and the patched model is fastest with %s" % (best, mine))
    measured = gain(candidates[best], own[mine], function, fresh, seconds)
    compiled_error = errors({"patched": own[mine]}, copy.deepcopy(plain).double(), function, fresh, 1)["patched"]
    right = right and compiled_error <= max(MOST_ERROR * error["baseline"], ERROR_FLOOR)
    report = fast.report()
    kernel_calls = sum(ways.get("kernel", 0) for ways in fast.counters().values())
    right = right and (kernel_calls > 0 or not expected)
    fast.disable()
    return {"right": right, "baseline": best, "patched": mine, "threads": facts["threads"], "torch": torch.__version__,
            "error": max(error["patched"], compiled_error), "baseline_error": error["baseline"],
            "baselines_ms": {n: 1e3 * t for n, t in medians.items()}, "patched_ms": {n: 1e3 * t for n, t in own_medians.items()},
            "measured": measured, "predicted": facts["predicted"], "kernel_calls": kernel_calls, "report": report}


def words(p):
    m = p["measured"]
    verdict = "faster" if m["low"] > 1.0 else "slower" if m["high"] < 1.0 else "neither faster nor slower by these blocks"
    return "\n".join([
        "The results are %s: rms error against f64 %.3g of the exact result's root mean square, the baseline's %.3g." % (
            "right" if p["right"] else "WRONG", p["error"], p["baseline_error"]),
        "The patched model (%s) is %s than the fastest baseline (%s): %.3f x (95 %%: %.3f - %.3f, %d blocks), %.3g ms and %.3g ms." % (
            p["patched"], verdict, p["baseline"], m["ratio"], m["low"], m["high"], m["blocks"], m["patched_ms"], m["baseline_ms"])
        if "neither" not in verdict else
        "The patched model (%s) is %s; the fastest baseline is %s: %.3f x (95 %%: %.3f - %.3f, %d blocks), %.3g ms and %.3g ms." % (
            p["patched"], verdict, p["baseline"], m["ratio"], m["low"], m["high"], m["blocks"], m["patched_ms"], m["baseline_ms"]),
        "Predicted from the searches: %.3f x." % p["predicted"], p["report"]])


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--seconds", type=float, default=20.0, help="of timed blocks")
    options.add_argument("--json", action="store_true")
    options = options.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    done = proof(options.seconds, lambda text: print(text, file=sys.stderr, flush=True))
    print(json.dumps(done) if options.json else words(done))
    return 0 if done["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
