#!/usr/bin/env python3
"""The mutation score of the judge: plausible mistakes in kernels, proven wrong apart from the judge, and how many it refuses.

  make    draws mutants from the seeds and evolved kernels, by the committed seed
  prove   shows of each, apart from the judge, that it is wrong on an input that its kernel claims
  judge   evaluates them with a program and notes what it says
  honest  evaluates the unchanged kernels again and again: none may be refused
  table   counts by kind
  show    prints a mutant's source, or writes it to a folder

Examples:
  mutants.py make --target cpu --count 1500
  mutants.py prove --target cpu --jobs 2
  mutants.py judge --program ../../build/release/bin/cultivar --name baseline --evaluations 1 --stop-at-accepted 360
  mutants.py judge --program ../../build/release/bin/cultivar --name new --of baseline --evaluations 3
  mutants.py table --name new
  mutants.py show cpu0123
  mutants.py honest --program ../../build/release/bin/cultivar --times 40
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import random
import re
import sys
import time
from pathlib import Path

import guards
import operators
import proof
import task_format as tf

HERE, ROOT = proof.HERE, proof.ROOT
TASKS = ROOT / "configs/tasks"
SEED = "cultivar judge mutants 2026"
COMMIT = "54e2c4e4"  # the kernels that are changed
KINDS = ["special", "beyond", "infinities", "remainder", "parameter", "rescaling", "uninitialised", "races", "range", "accuracy",
         "tunables", "stale"]
FURTHER_KINDS = ["registers"]  # of cuda, drawn only if they are named
WORDS = {"special": "a special path for one size or layout", "beyond": "beyond a size", "infinities": "infinities and huge values",
         "remainder": "remainders of tiles", "parameter": "a parameter misread", "rescaling": "rescaling",
         "uninitialised": "uninitialised", "races": "races", "range": "a range of values", "accuracy": "accuracy",
         "tunables": "tunables", "stale": "stale state", "registers": "arrays of registers"}
# Evaluations are cheap where little is timed: this set of the task instead of `cpu_quick`.
WORKLOADS = {"matmul": "cpu_quick", "rope": "cpu_quick", "cross_entropy": "cpu_quick", "linear": "cpu_quick",
             "rmsnorm_backward": "cpu_quick", "row_reduce": "cpu_quick"}
# How many mutants a kernel should have for each of a cheap one: those of attention cost most to evaluate.
SHARES = {"attention_backward": 0.3, "attention_forward": 0.8, "attention_paged": 0.6, "gelu": 0.6}


# Processor seconds of an evaluation, about; what is cheap goes first.
COST = {"attention_backward": 9, "attention_forward": 6, "attention_paged": 5, "gelu": 5, "silu_mul": 3, "swiglu_up": 4, "linear": 3}


def kernels(target):
    """(path below the repository, task) of all kernels that mistakes are made in."""
    found = sorted(TASKS.glob("*/seeds/*" + (".cpp" if target == "cpu" else ".cu")))
    if target == "cpu":
        found += [ROOT / "experiments/two_hours_cpu/kernel.cpp", ROOT / "experiments/quickstart/kernel.cpp",
                  ROOT / "experiments/mailbox_evolution/best/kernel.cpp"]
    else:
        found += sorted(p for p in (ROOT / "experiments/gpu_suite").glob("evolved/**/*.cu"))
        found = [p for p in found if usable_on_cuda(base_text(str(p.relative_to(ROOT))))]
    result = []
    for path in found:
        match = re.search(r"^task: (\w+)", path.read_text(), re.M)
        if match and (TASKS / match.group(1)).is_dir():
            result.append((str(path.relative_to(ROOT)), match.group(1)))
    return result


def usable_on_cuda(source):
    """The proof launches kernels itself: no tensor maps, and only headers of configs/tasks/headers."""
    if "/*--- cultivar" not in source or "tensor_maps" in source:
        return False
    manifest = tf.read_manifest(source)
    return all((TASKS / "headers" / h).exists() for h in manifest.get("headers") or [])


class Progress:
    def __init__(self, what, total):
        self.what, self.total, self.start, self.last, self.done = what, total, time.time(), 0.0, 0

    def step(self, note=""):
        self.done += 1
        now = time.time()
        if now - self.start < 2 or now - self.last < 1 and self.done < self.total:
            return
        self.last = now
        left = (now - self.start) / self.done * (self.total - self.done)
        sys.stderr.write("\r%s: %d of %d%s, about %d s left   " % (self.what, self.done, self.total, note, left))
        sys.stderr.flush()

    def end(self):
        if self.last:
            sys.stderr.write("\n")


def read_lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()] if Path(path).exists() else []


def write_lines(path, entries):
    Path(path).write_text("".join(json.dumps(e, sort_keys=True) + "\n" for e in entries))


def mutants_file(target):
    return HERE / ("mutants_%s.jsonl" % target)


def operator_table(target):
    if target == "cpu":
        import operators_values
        return operators_values.OPERATORS
    import operators_cuda
    return dict(operators_cuda.OPERATORS, **{k: v for more in operators_cuda.FURTHER.values() for k, v in more.items()})


def drawn_operators(target, kinds):
    """Those of kinds that are drawn only if they are named come only then."""
    if target == "cpu":
        return list(operator_table(target))
    import operators_cuda
    return list(operators_cuda.OPERATORS) + [name for kind, more in operators_cuda.FURTHER.items() if kind in kinds for name in more]


def places_of(kernel, task, operator, source, target):
    rng = random.Random("%s/%s/%s" % (SEED, kernel, operator))
    return list(operator_table(target)[operator](source, task, rng))


def dims_at(source, place, task, manifest):
    """{dimension: how the code at the place writes it}."""
    f = operators.function_at(source, place.start)
    header = source[f[0]:f[1]]
    for regex, names in operators.ALIASES:
        if re.search(regex, header):
            result = dict(names)
            break
    else:
        result = {d: d for d in task["dimensions"] if d in f[3]}
        # A block for each row: the size of the grid is the number of rows, in all functions.
        grid = (manifest["launch"][0].get("grid") or [""])[0]
        if grid in task["dimensions"] and grid not in result and len(manifest["launch"]) == 1:
            result[grid] = "static_cast<int>(gridDim.x)"
        if "count" in f[3] and task["name"] in ("gelu", "silu_mul"):
            result["count"] = "count"
    for name in manifest.get("specialize") or []:
        if name in task["dimensions"]:
            result[name] = name
    return result


def guard_code(guard, dims, style):
    """(text for {G}, a line in front of the function)"""
    text = guard["expression"]
    prelude = ""
    if style == "named":
        number = re.search(r"\b\d{3,}\b", text)
        if number:
            name = "kCase%s" % number.group(0)
            prelude = "enum : int { %s = %s };\n" % (name, number.group(0))
            text = text[:number.start()] + name + text[number.end():]
    text = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: dims.get(m.group(0), m.group(0)), text)
    return "(" + text + ")", prelude


@functools.lru_cache(None)
def base_text(kernel):
    """A kernel as it was when the mutants were made: git's, because seeds and evolved kernels change."""
    done = proof.run(["git", "-C", str(ROOT), "show", "%s:%s" % (COMMIT, kernel)])
    return done.stdout if done.returncode == 0 else (ROOT / kernel).read_text()


def source_of(mutant, original=None):
    """The source of a mutant, made again from its entry."""
    text = original or base_text(mutant["kernel"])
    target = "cpu" if mutant["kernel"].endswith(".cpp") else "cuda"
    place = places_of(mutant["kernel"], mutant["task"], mutant["operator"], text, target)[mutant["place"]]
    task = tf.parse_yaml((TASKS / mutant["task"] / "task.yaml").read_text())
    guard_text = None
    if mutant.get("guard"):
        dims = dims_at(text, place, task, tf.read_manifest(text))
        guard_text, prelude = guard_code({"expression": mutant["guard"]}, dims, mutant.get("style"))
        place.prelude = prelude + place.prelude
    return operators.applied(text, place, guard_text)


def scaled(task):
    return SHARES.get(task, 1.0)


def make(args):
    rng = random.Random("%s/%s%s" % (SEED, args.target, "/" + args.more if args.more else ""))
    candidates = {k: {} for k in KINDS + FURTHER_KINDS}  # kind -> kernel -> list
    for kernel, task_name in kernels(args.target):
        source = base_text(kernel)
        task = tf.parse_yaml((TASKS / task_name / "task.yaml").read_text())
        manifest = tf.read_manifest(source)
        sets = ["cpu_quick", "cpu_holdout"] if args.target == "cpu" else ["quick", "gpu", "holdout"]
        listed = guards.listed_workloads(task, sets)
        tunables = manifest.get("tunables") or {}
        for operator in drawn_operators(args.target, args.kinds):
            for n, place in enumerate(places_of(kernel, task_name, operator, source, args.target)):
                if args.kinds and place.kind not in args.kinds:
                    continue
                dims = dims_at(source, place, task, manifest)
                workload = dict(guards.BASE[task_name], **place.workload)
                workload.update(place.parameters)
                entry = {"kernel": kernel, "task": task_name, "operator": operator, "place": n, "kind": place.kind,
                         "workload": workload, "patterns": place.patterns, "order": place.order or "together"}
                if "{G}" not in place.text:
                    candidates[place.kind].setdefault(kernel, []).append(entry)
                    continue
                drawn = guards.guards_for(task_name, dims, rng)
                rng.shuffle(drawn)
                kept = 0
                for guard in drawn:
                    if kept >= args.guards:
                        break
                    whole = dict(workload, **guard["workload"])
                    whole.update(place.parameters)
                    try:
                        if not guards.holds(guard["expression"], task, whole):
                            continue
                        if any(guards.holds(guard["expression"], task, w) for w in listed):
                            continue
                    except tf.FormatError:
                        continue
                    kind = place.kind or guard["family"]
                    if place.kind == "remainder" and guard["family"] == "beyond":
                        continue
                    more = dict(entry, kind=kind, workload=whole, guard=guard["expression"],
                                style=rng.choice(["inline", "inline", "named"]))
                    candidates[kind].setdefault(kernel, []).append(more)
                    kept += 1
                    if tunables and kept <= 2 and kind in ("special", "beyond", "remainder", "uninitialised", "accuracy"):
                        name = rng.choice(sorted(tunables))
                        values = [str(v) for v in tunables[name]["values"] if str(v) != str(tunables[name]["default"])]
                        value = rng.choice(values)
                        text = "%s == %s" % (name, value if value.isdigit() else name + "_" + value)
                        candidates["tunables"].setdefault(kernel, []).append(
                            dict(more, kind="tunables", guard="%s && %s" % (text, guard["expression"]), tunables={name: value}))
    before = read_lines(mutants_file(args.target)) if args.more else []
    chosen, seen = [], {e["sha"] for e in before}
    wanted = args.kinds or KINDS
    each = args.count // len(wanted)
    for kind in wanted:
        pools = candidates[kind]
        for pool in pools.values():
            rng.shuffle(pool)
        order = sorted(pools)
        budget = {k: 0.0 for k in order}
        count = 0
        while count < each and any(pools.values()):
            # The kernel that has had least so far, by its share.
            k = min((k for k in order if pools[k]), key=lambda k: (budget[k], rng.random()))
            entry = pools[k].pop()
            budget[k] += 1 / scaled(entry["task"])
            text = source_of(entry)
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            if digest in seen or text == base_text(k):
                continue
            seen.add(digest)
            chosen.append(dict(entry, sha=digest))
            count += 1
    rng.shuffle(chosen)
    for i, entry in enumerate(chosen):
        entry["id"] = "%s%04d" % (args.target, i + len(before))
    write_lines(mutants_file(args.target), before + chosen)
    counts = {k: sum(e["kind"] == k for e in chosen) for k in KINDS + FURTHER_KINDS}
    print("%d mutants of %d kernels: %s" % (len(chosen), len({e["kernel"] for e in chosen}),
                                            ", ".join("%s %d" % (k, n) for k, n in counts.items())))


def larger(task, mutant):
    """The workload with what the condition does not name made larger: threads then meet more often."""
    named = set(re.findall(r"[A-Za-z_]\w*", mutant.get("guard") or ""))
    more = {"R": 301, "C": 3000, "V": 3000, "S_q": 192, "S_kv": 320, "B": 3, "M": 20, "H": 4}
    if named & {"S_q", "S_kv"}:
        named |= {"S_q", "S_kv"}
    if named & {"H", "H_kv"}:
        named.add("H")
    workload = dict(mutant["workload"])
    workload.update({d: v for d, v in more.items() if d in task.data["dimensions"] and d not in named and workload.get(d, 1) < v})
    return workload


def prove_one(mutant, cache):
    """The entry with `proof`: what showed it, or why nothing did."""
    task = proof.Task(TASKS / mutant["task"])
    original = base_text(mutant["kernel"])
    builder = proof.Builder(cache)
    tried = []
    pair = None
    try:
        pair = proof.Pair(task, original, source_of(mutant, original), builder, mutant.get("tunables"))
        inputs = [[]] + mutant["patterns"][:5]
        if mutant["kind"] in ("range", "infinities", "rescaling", "parameter") and mutant["patterns"]:
            inputs = mutant["patterns"][:5] + [[]]
        workloads = [mutant["workload"]]
        if mutant["kind"] == "races":
            workloads = [larger(task, mutant)] + workloads
        order = mutant["order"]
        for workload in workloads:
            for patterns in inputs:
                for seed in range(6 if mutant["kind"] == "races" else 1):
                    answer = pair.run(workload, "f32", {"patterns": patterns}, order, seed + 1)
                    if proof.is_wrong(answer):
                        return {"id": mutant["id"], "wrong": True, "workload": workload, "patterns": patterns, "order": order,
                                "seed": seed + 1, "of_permitted": min(answer["mutant"]["of_permitted"], 1e9), "what": answer["mutant"]["what"]}
                    tried.append("%.3g" % answer["mutant"]["of_permitted"] + ("" if answer["original"]["of_permitted"] <= 1 else " (the original is wrong too)"))
        return {"id": mutant["id"], "wrong": False, "why": "not wrong on the inputs tried: " + ", ".join(tried)}
    except (proof.Failure, tf.FormatError) as error:
        return {"id": mutant["id"], "wrong": False, "why": str(error)[:200]}
    except Exception as error:  # a time-out of a compiler, for example: recorded, not fatal
        return {"id": mutant["id"], "wrong": False, "why": repr(error)[:200]}
    finally:
        if pair:
            pair.close()


def prove(args):
    if args.target == "cuda":
        import proof_cuda
        return proof_cuda.prove(args, read_lines(mutants_file("cuda")), source_of)
    path = HERE / ("proofs_%s.jsonl" % args.target)
    known = {e["id"]: e for e in read_lines(path)} if not args.again else {}
    todo = [m for m in read_lines(mutants_file(args.target)) if m["id"] not in known and (not args.only or m["id"] in args.only)]
    todo.sort(key=lambda m: COST.get(m["task"], 2))
    progress = Progress("prove", len(todo))
    wrong = 0
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        with open(path, "a" if not args.again else "w") as out:
            for result in pool.map(prove_one, todo, [args.cache] * len(todo)):
                out.write(json.dumps(result, sort_keys=True) + "\n")
                out.flush()
                wrong += result["wrong"]
                progress.step(" (%d are wrong)" % wrong)
    progress.end()
    print("%d of %d are proven wrong" % (sum(e["wrong"] for e in read_lines(path)), len(read_lines(path))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, function, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=function)
        sub.add_argument("--target", choices=["cpu", "cuda"], default="cpu")
        sub.add_argument("--cache", default="/tmp/judge_mutants", help="a folder for what is compiled (default: %(default)s)")
        return sub
    sub = command("make", make, "draw mutants by the committed seed")
    sub.add_argument("--count", type=int, default=1500, help="how many, shared evenly by the kinds (default: %(default)s)")
    sub.add_argument("--guards", type=int, default=4, help="conditions tried at each place (default: %(default)s)")
    sub.add_argument("--kinds", nargs="*", default=[], help="only these kinds")
    sub.add_argument("--more", default="", help="a word for a further draw, whose mutants are added to the file")
    sub = command("prove", prove, "show apart from the judge that mutants are wrong")
    sub.add_argument("--jobs", type=int, default=1)
    sub.add_argument("--again", action="store_true", help="prove also what is proven")
    sub.add_argument("only", nargs="*", help="ids (default: all)")
    import judging
    judging.add_commands(command)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
