# SPDX-License-Identifier: Apache-2.0
"""python -m cultivar_import FILE.py[:NAME] --out FOLDER"""

import argparse
import atexit
import json
import os
import shutil
import sys
import threading
import time


def parser():
    from .source import HOW
    made = argparse.ArgumentParser(
        prog="cultivar import", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Turns a PyTorch function, a torch.nn.Module or a KernelBench file into a task folder.",
        epilog="How a function is told from a model: " + HOW + "\n\nExamples of inputs come from get_inputs() (a list of tensors and "
        "numbers), or example_inputs or inputs (a list or a function), or defaults of the arguments. Modules are taken in evaluation mode, unless "
        "the file itself calls train() or eval(), or is a KernelBench file, whose rule is training mode.")
    made.add_argument("file", nargs="?", metavar="FILE.py[:NAME]", help="the file, and the function or class in it")
    made.add_argument("--out", required=True, help="the folder of the new task (or of all tasks of a KernelBench)")
    made.add_argument("--name", help="the name of the task")
    made.add_argument("--json", action="store_true", help="the summary as JSON")
    made.add_argument("--lines", action="store_true", help="for the command that starts this: JSON lines with progress and result")
    made.add_argument("--memory-factor", type=float, default=1.0, help="timed sizes need this share of the example's memory")
    made.add_argument("--arch", default="", help="of the GPU for which torch.compile generates a seed, such as sm_90a; by default none")
    made.add_argument("--inputs", metavar="NAME|FILE.py[:NAME]", help="the file is a whole model: the function that draws its inputs")
    made.add_argument("--threads", type=int, default=0, help="of a whole model; 0: as many as there are cores")
    made.add_argument("--least", type=float, default=0.02, help="of a whole model: the share of its time that a region must promise")
    made.add_argument("--regions", type=int, default=6, help="of a whole model: the most tasks")
    made.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of a whole model")
    made.add_argument("--known", action="store_true", help="of a whole model: only functions that an installed task computes")
    made.add_argument("--no-autotune", action="store_true", help="of a whole model: not beside torch.compile with max-autotune")
    made.add_argument("--tasks", default="", help="of a whole model: the folder of installed tasks, whose kernels may replace functions")
    made.add_argument("--apply", metavar="CAMPAIGN", help="puts kernels of a campaign, which are in OUT/kernels, into its model")
    made.add_argument("--choices", default="[]", help="of --apply: what became of each region, as JSON")
    made.add_argument("--keep", action="store_true", help="of --apply: also kernels that make the model slower")
    made.add_argument("--seconds", type=float, default=20.0, help="of the proof of --apply")
    made.add_argument("--kernelbench", metavar="CHECKOUT", help="import problems of a checkout of KernelBench")
    made.add_argument("--level", type=int, default=1)
    made.add_argument("--problems", default="1-100", help="such as 1-100 or 1,5,7-9")
    made.add_argument("--budget", default="10m", help="of each search in the suites that are written, such as 10m")
    made.add_argument("--limit", type=float, default=60.0, help="seconds of processor time for each problem")
    made.add_argument("--memory", type=float, default=8.0, help="GiB for each problem")
    made.add_argument("--jobs", type=int, default=2, help="problems at a time")
    return made


def json_lines():
    """A function that writes one line of JSON to standard output, to which nothing else is written from now on."""
    lines, alone = os.fdopen(os.dup(1), "w"), threading.Lock()
    os.dup2(2, 1)

    def write(**what):
        with alone:
            lines.write(json.dumps(what) + "\n")
            lines.flush()
    return write


def patient(say, every=60.0, longest=1200.0):
    """`say` for work whose steps may take minutes (a compiler's): repeats the last progress, for so many seconds at most, because the
    command ends what says nothing for long."""
    last = ["starting", time.monotonic()]

    def repeat():
        while True:
            time.sleep(every)
            if time.monotonic() - last[1] < longest:
                say(f"{last[0]} (for {time.monotonic() - last[1]:.0f} s)")

    def told(text):
        last[:] = [text, time.monotonic()]
        say(text)

    threading.Thread(target=repeat, daemon=True).start()
    return told


def compilers_write_below(folder):
    """torch.compile keeps its files in a folder that may be written here, and that is removed at the end."""
    scratch = os.path.join(os.path.abspath(folder), ".scratch")
    os.makedirs(scratch, exist_ok=True)
    atexit.register(shutil.rmtree, scratch, True)
    os.environ.update({name: scratch for name in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")})


def apply_campaign(options, write, say):
    compilers_write_below(options.out)
    from .model_apply import apply
    from .refusal import Refusal
    try:
        done = apply(options.apply, options.out, json.loads(options.choices), options.seconds,
                     patient(say) if say else lambda text: None, options.keep)
    except Refusal as refusal:
        done = {"refused": refusal.reason, "remedy": refusal.remedy}
    write(**done) if write else print(json.dumps(done))
    return 0 if done.get("right") else 1


def main():
    options = parser().parse_args()
    write = json_lines() if options.lines else None
    say = (lambda text: write(progress=text)) if write else None
    if options.kernelbench:
        from .kernelbench import import_all
        return import_all(options, write)
    if options.apply:
        return apply_campaign(options, write, say)
    if not options.file:
        print("Name a file: FILE.py or FILE.py:NAME.", file=sys.stderr)
        return 1
    sys.dont_write_bytecode = True
    from .refusal import Refusal, brief
    path, name = options.file, None
    if not os.path.exists(path) and ":" in os.path.basename(path):
        path, name = path.rsplit(":", 1)
    new = not os.path.exists(options.out)
    if not new and os.listdir(options.out):
        print(f"{options.out} exists and is not empty. Name a new folder.")
        return 1
    try:
        import torch
        if options.inputs:
            compilers_write_below(options.out)
            torch.set_num_threads(options.threads or len(os.sched_getaffinity(0)))
            from .model_profile import Profile
            profile = Profile(options.file, options.inputs, options.out, options.least, options.regions,
                              patient(say) if say else None, options.device, options.tasks, options.known,
                              not options.no_autotune).run()
            summary = profile.summary()
            write(**summary) if write else print(json.dumps(summary) if options.json else profile.report())
            return 0
        torch.set_num_threads(max(1, min(2, os.cpu_count() or 1)))
        from .importer import Import
        done = Import(path, name, options.out, options.name, options.memory_factor, say,
                      architecture=options.arch or None).run()
    except Refusal as refusal:
        reason, remedy = refusal.reason, refusal.remedy
    except (MemoryError, RecursionError) as error:
        reason, remedy = f"The import ran out of {'memory' if isinstance(error, MemoryError) else 'stack'}.", "Use smaller examples."
    except SystemExit:
        reason, remedy = "The file ends the process.", "It must not call exit()."
    except Exception as error:
        if os.environ.get("CULTIVAR_IMPORT_DEBUG"):
            raise
        reason, remedy = f"The import failed: {brief(error)}.", "Report this with the file."
    else:
        summary = {"task": done.name, "report": done.report(), "seeds": done.seeds, "dtypes": done.dtypes,
                   "dimensions": done.dims.free, "assumed": done.assumed, "to_check": done.to_check,
                   "inputs": [{"name": i.name, "origin": i.origin, "path": i.path} for i in done.inputs],
                   "outputs": done.output_names, "changes": done.changed}
        if write:
            write(**summary, task_yaml=done.yaml)
        elif options.json:
            print(json.dumps(summary))
        else:
            print(done.report())
        return 0
    if new:
        shutil.rmtree(options.out, ignore_errors=True)
    else:
        for each in os.listdir(options.out):
            whole = os.path.join(options.out, each)
            shutil.rmtree(whole, ignore_errors=True) if os.path.isdir(whole) else os.unlink(whole)
    if write:
        write(refused=reason, remedy=remedy)
    elif options.json:
        print(json.dumps({"refused": reason, "remedy": remedy}))
    else:
        print(f"{reason} {remedy}".strip())
    return 1


if __name__ == "__main__":
    sys.exit(main())
