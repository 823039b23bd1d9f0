# SPDX-License-Identifier: Apache-2.0
"""From a campaign's kernels to a Python package that puts them into the model, and its proof."""

import inspect
import json
import os
import shutil
import subprocess
import sys

from . import fast_package, fast_verify
from .refusal import Refusal

NEAR = 1.15  # a baseline that took more than this share of the fastest one's time is not measured again by the proof
VERBATIM = {"__init__.py": fast_package, "verify.py": fast_verify}


def chosen(profile, choices):
    """The regions that are put in, the greatest gain first, each without another one around it or in it; and why others are not."""
    known = {r["name"]: r for r in profile["regions"] if r["name"]}
    left = [(c["name"], c["left"]) for c in choices if "left" in c]
    found = []
    for choice in choices:
        if "left" not in choice:
            region = known[choice["name"]]
            found.append({**region, "speedup": choice["speedup"], "gain_ms": region["ms"] - region["alone_ms"] / choice["speedup"]})
    taken = []
    for region in sorted(found, key=lambda r: -r["gain_ms"]):
        other = next((o for o in taken if _overlap(region, o)), None)
        if other is None:
            taken.append(region)
        else:
            left.append((region["name"], f"{other['name']}, which gains more, contains it or lies in it"))
    return taken, left


def _overlap(one, other):
    return any(a.startswith(b + ".") or b.startswith(a + ".") for a in one["paths"] for b in other["paths"])


def write_package(campaign, out, choices):
    """Writes everything but the kernels, which are in out/kernels; returns the facts and what is left out."""
    with open(os.path.join(campaign, "profile.json"), encoding="utf-8") as file:
        profile = json.load(file)
    with open(os.path.join(campaign, "regions.json"), encoding="utf-8") as file:
        tasks = json.load(file)
    taken, left = chosen(profile, choices)
    for name, why in left:
        shutil.rmtree(os.path.join(out, "kernels", name), ignore_errors=True)
    if not taken:
        return None, left
    near = [n for n, b in profile["baselines"].items() if b.get("ms", 2.0 * NEAR * profile["ms"]) <= NEAR * profile["ms"]]
    facts = {key: profile[key] for key in ("model", "build", "inputs", "device", "threads", "torch", "fastest", "ms")}
    facts["ways"] = near
    facts["regions"] = [{**r, "call": r["match"]["task"] if r["match"] else r["name"],
                         "inputs": [] if r["match"] else tasks[r["name"]]["inputs"]} for r in taken]
    shutil.copytree(os.path.join(campaign, "source"), os.path.join(out, "source"), dirs_exist_ok=True, ignore=shutil.ignore_patterns("region_*", "__pycache__"))
    for name, module in VERBATIM.items():
        shutil.copyfile(module.__file__, os.path.join(out, name))
    import cultivar_reference.modes
    shutil.copyfile(inspect.getsourcefile(cultivar_reference.modes), os.path.join(out, "exact.py"))
    with open(os.path.join(out, "regions.json"), "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)
    return facts, left


def shares(facts):
    """Why the model gains less than its kernels: a sentence for each region, of the share that it had of a measured pass."""
    said, whole = [], facts["ms"]
    for r in facts["regions"]:
        model = whole / max(whole - r["gain_ms"], 0.01 * whole)
        said.append(f"{r['name']} took {100 * r['ms'] / whole:.3g} % of a measured pass ({r['ms']:.3g} of {whole:.3g} ms), and all else takes as long as "
                    f"before: {fast_verify.times(r['speedup'])} in its search makes the model {fast_verify.times(model)} as fast by these times.")
    return said


def readme(out, facts, left, proof):
    name = os.path.basename(out)
    lines = [f"# {name}: {facts['model']} with other kernels", "", "```", fast_package.__doc__.split("\n\n")[1].replace("fast", name), "```", "",
             fast_package.__doc__.split("\n\n", 2)[2].strip(), "", "## What was proven", "", fast_verify.words(proof), "", *shares(facts), "",
             f"`python verify.py` proves it again, on any machine with PyTorch 2, numpy, CMake and a C++ compiler. Measured with PyTorch "
             f"{proof['torch']} and {proof['threads']} threads.", "", "| region | modules | gain in the search | ms of a pass before |",
             "|---|---|---|---|"]
    lines += [f"| {r['name']} ({r['class']}) | {len(r['paths'])} | {fast_verify.times(r['speedup'])} | {r['ms']:.3g} |" for r in facts["regions"]]
    if left:
        lines += ["", "Left as they were:", ""] + [f"- {n}: {why}" for n, why in left]
    with open(os.path.join(out, "README.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def prove(out, seconds, say):
    """What the package's verify.py finds."""
    verify = subprocess.Popen([sys.executable, os.path.join(out, "verify.py"), "--json", "--seconds", str(seconds)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = []
    for line in verify.stderr:
        said.append(line.rstrip())
        say(line.rstrip())
    text = verify.stdout.read()
    verify.wait()
    try:
        return json.loads(text)
    except ValueError:
        last = next((line for line in reversed(said) if line.strip()), f"exit code {verify.returncode}")  # of a traceback: the error
        raise Refusal(f"The proof ended without a result: {last.strip()[:500]}", "The kernels are not used.") from None


def slower(proof):
    """The regions that make the model slower, each by itself or as the only one."""
    return [name for name, r in proof["regions"].items() if r["measured"] and r["measured"]["high"] < 1.0]


def apply(campaign, out, choices, seconds, say, keep=False):
    """The summary for the command: {"right", "report", "proof", "regions", "left"}. `keep`: also kernels that make the model slower."""
    facts, left = write_package(campaign, out, choices)
    while facts:
        say(f"{', '.join(r['name'] for r in facts['regions'])}: building, and proving it on the whole model")
        proof = prove(out, seconds, say)
        lost = [] if keep else slower(proof)
        if not lost:
            break
        for choice in choices:
            if choice["name"] in lost:
                choice["left"] = f"within the whole model it is slower: {fast_verify.times(proof['regions'][choice['name']]['measured']['ratio'])}"
        facts, left = write_package(campaign, out, choices)
    said_left = "Left as they were:\n" + "\n".join(f"  {n}: {why}" for n, why in left)
    if not facts:
        return {"right": True, "report": f"There is nothing to put in yet, so nothing is written. {said_left}", "regions": [],
                "left": [{"name": n, "why": why} for n, why in left]}
    readme(out, facts, left, proof)
    with open(os.path.join(out, "proof.json"), "w", encoding="utf-8") as file:
        json.dump(proof, file, indent=1)
    report = "\n".join([fast_verify.words(proof), *shares(facts)])
    if left:
        report += "\n" + said_left
    report += f"\n\n  import {os.path.basename(out)}; {os.path.basename(out)}.enable(model)\n\nSee README.md in {out}."
    return {"right": proof["right"], "report": report, "proof": proof, "predicted": proof["predicted"],
            "regions": [{k: r[k] for k in ("name", "paths", "speedup", "ms", "gain_ms")} for r in facts["regions"]],
            "left": [{"name": n, "why": why} for n, why in left]}
