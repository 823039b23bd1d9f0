# SPDX-License-Identifier: Apache-2.0
"""Imports problems of KernelBench, each in a process of its own, and writes a table and a suite."""

import json
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback


def wanted(text):
    numbers = set()
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        numbers.update(range(int(low), int(high or low) + 1))
    return numbers


def problems_of(checkout, level, numbers):
    for folder in (os.path.join(checkout, "KernelBench", f"level{level}"), os.path.join(checkout, f"level{level}")):
        if os.path.isdir(folder):
            found = []
            for each in os.listdir(folder):
                match = re.match(r"(\d+)_.*\.py$", each)
                if match and int(match.group(1)) in numbers:
                    found.append((int(match.group(1)), os.path.join(folder, each)))
            return sorted(found)
    return None


def _child(path, out, name, options, answer):
    """Imports one problem; writes the result as JSON to the file `answer`."""
    result = {}
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (now + int(options.memory * 2**30),) * 2)
        log = os.open(answer + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        import torch
        torch.set_num_threads(1)
        from .importer import Import
        from .refusal import Refusal, brief
        begin, used = time.perf_counter(), time.process_time()
        try:
            done = Import(path, None, out, name, options.memory_factor, seconds=min(9.0, options.limit / 5), own_dtype=True).run()
            result = {"task": done.name, "seeds": done.seeds, "controls": len(done.controls), "rows": done.rows,
                      "dimensions": done.dims.free, "to_check": done.to_check, "report": done.report(),
                      "smoke_ms": round(1e3 * done.sizes.middle_seconds, 2), "dtypes": done.dtypes,
                      "sets": [name for name, *_ in done.sets], "intensity": done.intensity}
        except Refusal as refusal:
            result = {"refused": refusal.reason, "remedy": refusal.remedy}
        except MemoryError:
            result = {"refused": f"It needs more than {options.memory:g} GiB of memory."}
        except RecursionError:
            result = {"refused": "Its nesting is too deep."}
        except BaseException as error:
            traceback.print_exc()
            memory = "allocate memory" in str(error) or "not enough memory" in str(error)
            result = {"refused": f"It needs more than {options.memory:g} GiB of memory."} if memory else {
                "refused": f"The import failed: {brief(error)}.", "failed": True}
        result["seconds"] = round(time.perf_counter() - begin, 1)
        result["processor_seconds"] = round(time.process_time() - used, 1)
    finally:
        with open(answer, "w", encoding="utf-8") as file:
            json.dump(result, file)
        os._exit(0)


def _processor_seconds(child):
    """What a running child has used: its limit should not depend on what else the machine does."""
    try:
        with open(f"/proc/{child}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


def _warm():
    """Loads and runs once what every problem needs: the processes inherit it."""
    from . import importer, seeds, shapes, trace  # noqa: F401
    from .observe import Values
    from .subject import Input
    try:
        import torch
        compute = lambda x: (torch.softmax(x @ x.T, -1),)
        shapes.analyse(compute, [Input("x", (8, 16), torch.float32, Values("normal"), "example")], {})
        trace.trace(compute, [torch.zeros(8, 16)], ["x"], {"x": ["R", "C"]})
    except Exception:  # only time is lost
        pass


def import_all(options, write=None):
    """`write`: receives progress and the result in place of the terminal (__main__.json_lines)."""
    say = (lambda text: write(progress=text)) if write else (lambda text: print(text, file=sys.stderr, flush=True))
    try:
        numbers = wanted(options.problems)
    except ValueError:
        return _refuse(write, f"--problems {options.problems} is no list such as 1-100 or 1,5,7-9.")
    problems = problems_of(options.kernelbench, options.level, numbers)
    if not problems:
        return _refuse(write, f"{options.kernelbench} has no such problems of level {options.level}. Give the folder that contains "
                              "KernelBench/level1.")
    os.makedirs(options.out, exist_ok=True)
    sys.dont_write_bytecode = True
    import torch  # before the forks: reading it takes seconds
    import torch._dynamo.source  # noqa: F401
    torch.set_num_threads(1)
    _warm()
    begin = time.perf_counter()
    waiting, running, results = list(problems), {}, {}
    scratch = os.path.join(options.out, ".answers")
    os.makedirs(scratch, exist_ok=True)
    while waiting or running:
        while waiting and len(running) < max(1, options.jobs):
            number, path = waiting.pop(0)
            name = f"l{options.level}_{number}_" + re.sub(r"\W+", "_", os.path.basename(path)[:-3].split("_", 1)[1]).strip("_").lower()
            name = re.sub("__+", "_", name)[:60].strip("_")
            out, answer = os.path.join(options.out, name), os.path.join(scratch, f"{number}.json")
            shutil.rmtree(out, ignore_errors=True)
            if os.path.exists(answer):
                os.unlink(answer)
            sys.stdout.flush()
            sys.stderr.flush()
            child = os.fork()
            if child == 0:
                os.setpgid(0, 0)
                _child(path, out, name, options, answer)
            running[child] = (number, path, name, out, answer, time.perf_counter())
        time.sleep(0.02)
        for child in list(running):
            number, path, name, out, answer, since = running[child]
            ended, status = os.waitpid(child, os.WNOHANG)
            spent = time.perf_counter() - since
            if not ended and spent <= 5 * options.limit and _processor_seconds(child) <= options.limit:
                continue
            late = not ended
            if late:
                try:
                    os.killpg(child, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                os.waitpid(child, 0)
            del running[child]
            try:
                with open(answer, encoding="utf-8") as file:
                    result = json.load(file)
            except (OSError, ValueError):
                result = {}
            if late:
                what = f"{options.limit:g} s of processor time" if spent <= 5 * options.limit else f"{5 * options.limit:g} s"
                result = {"refused": f"The import took longer than {what}.", "seconds": round(spent, 1)}
            elif not result or ("task" not in result and "refused" not in result):
                what = f"by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"with status {status >> 8}"
                result = {"refused": f"The process of the import ended {what}.", "seconds": round(spent, 1), "failed": True}
            if "task" not in result:
                shutil.rmtree(out, ignore_errors=True)
            result.update(number=number, file=os.path.basename(path), folder=name)
            results[number] = result
            say(f"{options.level}/{number}: {'task ' + name if 'task' in result else 'refused: ' + result['refused']} "
                f"({result['seconds']} s)")
    total = time.perf_counter() - begin
    shutil.rmtree(scratch, ignore_errors=True)
    _write(options, results, total)
    tasks = sum("task" in r for r in results.values())
    report = (f"Level {options.level}: {len(results)} problems, {tasks} tasks, {len(results) - tasks} refused, {total:.0f} s. "
              f"Table: {os.path.join(options.out, 'table.md')}")
    if write:
        write(report=report, problems=[results[k] for k in sorted(results)])
    else:
        print(json.dumps([results[k] for k in sorted(results)]) if options.json else report)
    return 0


def _refuse(write, why):
    write(refused=why, remedy="") if write else print(why)
    return 1


def _write(options, results, total):
    """table.md for people, problems.json for programs, and a suite of searches for each target."""
    def put(name, text):
        with open(os.path.join(options.out, name), "w", encoding="utf-8") as file:
            file.write(text)

    rows = [results[number] for number in sorted(results)]
    lines = [f"# KernelBench, level {options.level}", "",
             f"{sum('task' in r for r in rows)} of {len(rows)} problems are tasks; {total:.0f} s.", "",
             "| problem | task, or why not | seeds | controls | smoke ms | s |", "|---|---|---|---|---|---|"]
    for r in rows:
        what = f"`{r['folder']}`" if "task" in r else "refused: " + r["refused"].replace("|", "\\|")
        lines.append(f"| {r['number']} {r['file'][:-3].split('_', 1)[1]} | {what} | {', '.join(r.get('seeds', [])) or 'no'} | "
                     f"{r.get('controls', '')} | {r.get('smoke_ms', '')} | {r['seconds']} |")
    put("table.md", "\n".join(lines) + "\n")
    kept = ("number", "folder", "task", "seeds", "sets", "intensity", "refused", "remedy", "seconds", "processor_seconds")
    put("problems.json", json.dumps({"level": options.level, "memory_factor": options.memory_factor,
                                     "problems": [{k: r[k] for k in kept if k in r} for r in rows]}, indent=1) + "\n")
    for target, file in (("cuda", "gpu_suite.yaml"), ("cpu", "cpu_suite.yaml")):
        put(file, suite_text(options, target, rows))


SEEDS = {"cuda": "cuda_naive.cu", "cpu": "naive.cpp"}
SETS = {"cuda": ("example", "example_holdout"), "cpu": ("cpu_quick", "cpu_holdout")}


def suite_text(options, target, rows):
    """A suite file of the problems that have a seed for this target. The others are `refused` with the reason."""
    workloads, holdout = SETS[target]
    sizes = "" if options.memory_factor == 1 else f", which need {options.memory_factor:g} times the memory of the problem's own"
    lines = [f"# KernelBench, level {options.level}, on {target}: `cultivar suite {'gpu' if target == 'cuda' else 'cpu'}_suite.yaml`; the "
             "same command continues, and its table has fast_p.",
             f"# The sizes are {'those of the problem' + sizes if target == 'cuda' else 'what two cores compute in milliseconds'}. "
             "To let a language model write kernels, add models and operators to `common`",
             "# (configs/README.md); the naive seeds alone have nothing to tune.",
             f"name: kernelbench_level{options.level}" + ("" if target == "cuda" else "_cpu"),
             "common:",
             f"  target: {target}",
             f"  workloads: {workloads}",
             f"  seeds: [{SEEDS[target].split('.')[0]}]",
             "  contenders: [torch_eager, torch_compile]  # they run the problems' files outside of the sandbox",
             f"  evaluation: {{python: {json.dumps(sys.executable)}}}",
             f"  budget: {{wall: {options.budget}}}",
             "tasks:" if any(has_seed(r, target) for r in rows) else "tasks: []"]
    for r in rows:
        if has_seed(r, target):
            held = f", holdout: {holdout}" if holdout in r["sets"] else ""
            lines.append(f"  - {{name: {r['folder']}, task: ./{r['folder']}{held}}}")
    left = [(r["folder"], r.get("refused") or "No kernel could be derived from the program, so a search has no seed.")
            for r in rows if not has_seed(r, target)]
    lines += ["refused:"] if left else []
    lines += [f"  {name}: {json.dumps(why, ensure_ascii=False)}" for name, why in left]
    return "\n".join(lines) + "\n"


def has_seed(row, target):
    return SEEDS[target] in row.get("seeds", [])
