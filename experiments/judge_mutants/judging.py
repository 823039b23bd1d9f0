"""Evaluates mutants, or unchanged kernels, with a program, and counts."""

import json
import os
import random
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import proof

HERE, ROOT = proof.HERE, proof.ROOT


def checks_only(program):
    done = subprocess.run([program, "evaluate", "--help"], stdout=subprocess.PIPE, text=True)
    return "--checks-only" in done.stdout


def evaluate(program, task, source, suffix, tunables, options, cache, timeout):
    """{accepted, stage, reason, seconds}; accepted is None if the program could not say."""
    with tempfile.TemporaryDirectory(prefix="mutant") as folder:
        path = Path(folder) / ("kernel" + suffix)
        path.write_text(source)
        variant = str(path)
        if tunables:
            variant += "@" + ",".join("%s=%s" % kv for kv in sorted(tunables.items()))
        command = ["nice", "-n", "5", program, "evaluate", task, variant, "--json"] + options
        start = time.time()
        environment = dict(os.environ, CULTIVAR_CACHE=cache)
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, env=environment)
        except subprocess.TimeoutExpired:
            return {"accepted": None, "stage": "", "reason": "no answer in %d s" % timeout, "seconds": timeout}
        seconds = round(time.time() - start, 1)
        try:
            answer = json.loads(done.stdout)[0]
        except (ValueError, IndexError, KeyError):
            return {"accepted": None, "stage": "", "reason": (done.stderr or done.stdout)[-400:], "seconds": seconds}
        verdict, reason = answer.get("verdict"), answer.get("reason") or ""
        accepted = True if verdict in ("measured", "passed", "checked") else False if verdict == "rejected" else None
        if accepted is False and "too short to be timed" in reason:
            accepted = None
        return {"accepted": accepted, "stage": answer.get("stage"), "reason": (reason or str(verdict))[:700], "seconds": seconds}


def options_of(args, task, workload_sets):
    if args.checks_only:
        return ["--checks-only"] + (["--target", args.device] if args.device else [])
    options = ["--stop-after", args.stop_after]
    if args.device:
        options += ["--target", args.device]
    elif workload_sets.get(task):
        options += ["--workloads", workload_sets[task]]
    return options


def results_file(target, name):
    return HERE / ("judged_%s_%s.jsonl" % (target, name))


def accepted_ids(target, name):
    import mutants
    first = {}
    for e in mutants.read_lines(results_file(target, name)):
        if e["round"] == 1:
            first[e["id"]] = e["accepted"]
    return {i for i, a in first.items() if a}


def sets_of_tasks():
    import mutants
    result = {}
    for path in sorted(mutants.TASKS.glob("*/task.yaml")):
        text = path.read_text()
        result[path.parent.name] = mutants.WORKLOADS.get(path.parent.name, "cpu_holdout" if "cpu_holdout" in text else "")
    return result


def in_turn(entries, accepted):
    """Kinds take turns, the ones with the fewest accepted so far first; of a kind, what is cheap goes first."""
    import mutants
    queues = {}
    for m in sorted(entries, key=lambda m: mutants.COST.get(m["task"], 2)):
        queues.setdefault(m["kind"], []).append(m)
    had = {k: accepted.get(k, 0) for k in queues}
    result = []
    while any(queues.values()):
        kind = min((k for k in queues if queues[k]), key=lambda k: had[k])
        result.append(queues[kind].pop(0))
        had[kind] += 1
    return result


def judge(args):
    import mutants
    proofs = {e["id"]: e for e in mutants.read_lines(HERE / ("proofs_%s.jsonl" % args.target))}
    entries = [m for m in mutants.read_lines(mutants.mutants_file(args.target)) if proofs.get(m["id"], {}).get("wrong")]
    if args.of:
        scored = accepted_ids(args.target, args.of)
        entries = [m for m in entries if m["id"] in scored]
    if args.only:
        entries = [m for m in entries if m["id"] in args.only]
    if args.kind:
        entries = [m for m in entries if m["kind"] in args.kind]
    path = results_file(args.target, args.name)
    known = {}
    for e in mutants.read_lines(path):
        known.setdefault(e["id"], []).append(e)
    accepted = {}
    for m in entries:
        for e in known.get(m["id"], [])[:1]:
            accepted[m["kind"]] = accepted.get(m["kind"], 0) + (e["accepted"] is True)
    todo = [m for m in entries if not known.get(m["id"])
            or (len(known[m["id"]]) < args.evaluations and all(e["accepted"] for e in known[m["id"]]))]
    todo = in_turn(todo, accepted)
    args.checks_only = args.checks_only or (args.stop_after == "confirm" and checks_only(args.program))
    sets = sets_of_tasks() if not args.workloads else {}
    suffix = ".cpp" if args.target == "cpu" else ".cu"
    progress = mutants.Progress("judge", len(todo))
    survived = [0]

    def one(m):
        if args.each_kind and accepted.get(m["kind"], 0) >= args.each_kind:
            return []
        if args.stop_at_accepted and sum(accepted.values()) >= args.stop_at_accepted:
            return []
        if args.until and time.strftime("%H:%M") >= args.until:
            return []
        source = mutants.source_of(m)
        lines = []
        done = len(known.get(m["id"], []))
        while done < args.evaluations:
            done += 1
            e = evaluate(args.program, m["task"], source, suffix, m.get("tunables"), options_of(args, m["task"], sets), args.work, args.timeout)
            lines.append(dict(e, id=m["id"], round=done))
            if not e["accepted"]:
                break
        return lines
    with open(path, "a") as out, ThreadPoolExecutor(args.jobs) as pool:
        for future in as_completed([pool.submit(lambda m=m: (m, one(m))) for m in todo]):
            m, lines = future.result()
            for e in lines:
                out.write(json.dumps(e, sort_keys=True) + "\n")
            out.flush()
            if lines and lines[0]["accepted"]:
                accepted[m["kind"]] = accepted.get(m["kind"], 0) + 1
            if lines and lines[-1]["accepted"]:
                survived[0] += 1
            progress.step(" (%d accepted)" % survived[0])
    progress.end()
    table(args)


def table(args):
    import mutants
    kinds = {m["id"]: m["kind"] for m in mutants.read_lines(mutants.mutants_file(args.target))}
    results = {}
    for e in mutants.read_lines(results_file(args.target, args.name)):
        results.setdefault(e["id"], []).append(e)
    if getattr(args, "of", None):
        scored = accepted_ids(args.target, args.of)
        results = {i: r for i, r in results.items() if i in scored}
    print("%-36s %7s %8s %8s %8s %9s  %s" % ("kind", "judged", "refused", "in one", "accepted", "undecided", "refused"))
    totals = [0] * 5
    for kind in mutants.KINDS + mutants.FURTHER_KINDS:
        of_kind = [r for i, r in results.items() if kinds.get(i) == kind]
        refused = sum(any(e["accepted"] is False for e in r) for r in of_kind)
        at_once = sum(r[0]["accepted"] is False for r in of_kind)
        undecided = sum(r[-1]["accepted"] is None for r in of_kind)
        accepted = len(of_kind) - refused - undecided
        row = [len(of_kind), refused, at_once, accepted, undecided]
        totals = [a + b for a, b in zip(totals, row)]
        print_row(mutants.WORDS[kind], row)
    print_row("all", totals)
    if getattr(args, "list", False):
        proofs = {e["id"]: e for e in mutants.read_lines(HERE / ("proofs_%s.jsonl" % args.target))}
        for m in mutants.read_lines(mutants.mutants_file(args.target)):
            r = results.get(m["id"])
            if r and r[-1]["accepted"]:
                p = proofs[m["id"]]
                print("%s %s: %s in %s, place %d%s%s; wrong on %s%s: %s" % (
                    m["id"], m["kind"], m["operator"], m["kernel"], m["place"], ", where " + m["guard"] if m.get("guard") else "",
                    ", with %s" % m["tunables"] if m.get("tunables") else "", json.dumps(p["workload"], sort_keys=True),
                    " with " + "; ".join(p["patterns"]) if p["patterns"] else "", p["what"]))


def print_row(name, row):
    decided = row[0] - row[4]
    print("%-36s %7d %8d %8d %8d %9d  %s" % (name, *row, "%.1f %%" % (100 * row[1] / decided) if decided else "-"))


def honest(args):
    import mutants
    args.checks_only = args.checks_only or (args.stop_after == "confirm" and checks_only(args.program))
    sets = sets_of_tasks()
    found = [(k, t) for k, t in mutants.kernels(args.target) if not args.only or any(o in k for o in args.only)]
    jobs = [(k, t) for _ in range(args.times) for k, t in found]
    random.shuffle(jobs)
    progress, counts = mutants.Progress("honest", len(jobs)), {True: 0, False: 0, None: 0}
    path = HERE / ("honest_%s_%s.jsonl" % (args.target, args.name))
    with open(path, "a") as out, ThreadPoolExecutor(args.jobs) as pool:
        def one(job):
            source = (ROOT / job[0]).read_text()
            if args.until and time.strftime("%H:%M") >= args.until:
                return job, None
            return job, evaluate(args.program, job[1], source, Path(job[0]).suffix, None, options_of(args, job[1], sets), args.work, args.timeout)
        for future in as_completed([pool.submit(one, j) for j in jobs]):
            job, e = future.result()
            if e is None:
                continue
            counts[e["accepted"]] += 1
            out.write(json.dumps(dict(e, kernel=job[0]), sort_keys=True) + "\n")
            out.flush()
            progress.step(" (%d refused)" % counts[False])
    progress.end()
    print("%d accepted, %d refused, %d undecided; each is a line of %s" % (counts[True], counts[False], counts[None], path.name))


def show(args):
    import mutants
    for m in mutants.read_lines(mutants.mutants_file(args.target)):
        if m["id"] in args.only:
            text = mutants.source_of(m)
            if args.out:
                Path(args.out).mkdir(parents=True, exist_ok=True)
                (Path(args.out) / (m["id"] + Path(m["kernel"]).suffix)).write_text(text)
            elif args.diff:
                import difflib
                print("".join(difflib.unified_diff(mutants.base_text(m["kernel"]).splitlines(True), text.splitlines(True), m["kernel"], m["id"], n=2)))
            else:
                print(text, end="")


def add_commands(command):
    def common(sub):
        sub.add_argument("--program", required=True, help="the cultivar that judges")
        sub.add_argument("--name", default="new", help="of the file of results (default: %(default)s)")
        sub.add_argument("--work", default="/tmp/judge_mutants_cultivar", help="CULTIVAR_CACHE of the program (default: %(default)s)")
        sub.add_argument("--jobs", type=int, default=1, help="evaluations at a time (default: %(default)s)")
        sub.add_argument("--timeout", type=float, default=300, help="seconds for one evaluation (default: %(default)s)")
        sub.add_argument("--stop-after", default="confirm")
        sub.add_argument("--checks-only", action="store_true", help="used anyway if the program has it and --stop-after is confirm")
        sub.add_argument("--workloads", action="store_true", help="time the task's default workloads, not the smaller sets")
        sub.add_argument("--device", default="", help="for example cuda:0")
        sub.add_argument("--until", default="", help="a time of day, HH:MM, at which no further evaluation begins")
        sub.add_argument("only", nargs="*", help="ids, or parts of kernels' paths (default: all)")
    sub = command("judge", judge, "evaluate the mutants that are proven wrong")
    common(sub)
    sub.add_argument("--evaluations", type=int, default=3, help="of each, until one refuses it (default: %(default)s)")
    sub.add_argument("--of", default="", help="only what the first evaluation of these results accepted, such as baseline")
    sub.add_argument("--kind", nargs="*", default=[])
    sub.add_argument("--each-kind", type=int, default=0, help="stop a kind at so many accepted ones")
    sub.add_argument("--stop-at-accepted", type=int, default=0)
    sub = command("honest", honest, "evaluate the unchanged kernels")
    common(sub)
    sub.add_argument("--times", type=int, default=10)
    sub = command("table", table, "count results by kind")
    sub.add_argument("--name", default="new")
    sub.add_argument("--of", default="")
    sub.add_argument("--list", action="store_true", help="list what was accepted, with the inputs that prove it wrong")
    sub = command("show", show, "print or write sources of mutants")
    sub.add_argument("--out", default="", help="a folder to write them into")
    sub.add_argument("--diff", action="store_true")
    sub.add_argument("only", nargs="+")
