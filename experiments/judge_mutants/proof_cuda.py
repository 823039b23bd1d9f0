"""The proof for cuda mutants: NVRTC by ctypes, launches by the driver (prove_cuda.hpp). Without a card, what compiles is
`derived`: a guarded mistake changes the output by construction where its guard holds, and is proven when a card runs it."""

import concurrent.futures
import ctypes
import glob
import hashlib
import json
import os
import tempfile
from pathlib import Path

import proof
import task_format as tf

FACTS = {"num_sms": 132, "smem_max": 232448, "l2_bytes": 50 << 20, "registers_max": 65536, "threads_max": 2048,
         "compute_capability": 90}


def nvrtc_path():
    found = [os.environ.get("NVRTC", "")] + sorted(glob.glob("/usr/local/cuda*/lib*/libnvrtc.so*") + glob.glob(
        "/usr/lib/x86_64-linux-gnu/libnvrtc.so*") + glob.glob("/usr/local/cuda*/targets/*/lib/libnvrtc.so*"))
    for path in found:
        if path and os.path.exists(path):
            return path
    raise proof.Failure("no libnvrtc.so: set NVRTC to its path")


class Compiler:
    def __init__(self, cache):
        self.cache = Path(cache)
        self.cache.mkdir(parents=True, exist_ok=True)
        self.path = nvrtc_path()
        self.library = ctypes.CDLL(self.path)
        self.home = Path(self.path).resolve()
        while self.home != self.home.parent and not (self.home / "include" / "cuda_bf16.h").exists():
            self.home = self.home.parent

    def cubin(self, source, macros, task_folder, keep):
        digest = hashlib.sha256((source + "\0".join(macros)).encode()).hexdigest()[:24]
        path = self.cache / ("cuda_" + digest + ".cubin")
        if path.exists():
            return path
        n = self.library
        program = ctypes.c_void_p()
        n.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
        options = ["--std=c++20", "--gpu-architecture=sm_90a", "-I" + str(Path(task_folder).parent / "headers"),
                   "-I" + str(Path(task_folder) / "seeds"), "-I" + str(self.home / "include"),
                   "-I" + str(self.home / "include/cccl")] + ["-D" + m for m in macros]
        array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        failed = n.nvrtcCompileProgram(program, len(options), array)
        size = ctypes.c_size_t()
        try:
            if failed:
                n.nvrtcGetProgramLogSize(program, ctypes.byref(size))
                log = ctypes.create_string_buffer(size.value)
                n.nvrtcGetProgramLog(program, log)
                raise proof.Failure("does not compile: " + log.value.decode(errors="replace")[:300])
            n.nvrtcGetCUBINSize(program, ctypes.byref(size))
            image = ctypes.create_string_buffer(size.value)
            n.nvrtcGetCUBIN(program, image)
        finally:
            n.nvrtcDestroyProgram(ctypes.byref(program))
        partial = str(path) + ".%d" % os.getpid()
        Path(partial).write_bytes(image.raw)
        os.replace(partial, path)
        return path


def has_card():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def prove_one(mutant, original, text, cache, card, folder):
    entry = {"id": mutant["id"], "wrong": False, "derived": False}
    try:
        task = proof.Task(folder)
        builder, compiler = proof.Builder(cache), Compiler(cache)
        manifest = tf.read_manifest(original)
        why = None
        for dtype in ("f32", "bf16"):
            why = task.claimed(original, manifest, mutant["workload"], dtype, mutant.get("tunables"), FACTS) \
                if dtype in task.data["dtypes"] else "no such dtype"
            if why:
                entry["why"] = why
                continue
            names = tf.names_of_workload(task.data, mutant["workload"], dtype)
            scope_names = dict(names)
            scope_names.update(FACTS)
            scope_names.update(tf.tunable_values(manifest, mutant.get("tunables") or {}))
            for name, expression in (manifest.get("let") or {}).items():
                scope_names[name] = tf.evaluate(expression, scope_names)
            macros = tf.macros_of(manifest, task.data, dict(scope_names, **names), mutant.get("tunables") or {}, dtype, "cuda")
            kernels = [compiler.cubin(s, macros, task.folder, False) for s in (original, text)]
            if kernels[0].read_bytes() == kernels[1].read_bytes():
                entry["why"] = "the machine code is the same"
                continue
            entry["derived"] = True
            if not card:
                return dict(entry, workload=mutant["workload"], dtype=dtype, patterns=(mutant["patterns"] or [[]])[0], what="compiles; not run")
            inputs = [[]] + mutant["patterns"][:4]
            if mutant["kind"] in ("range", "infinities", "rescaling", "parameter") and mutant["patterns"]:
                inputs = mutant["patterns"][:4] + [[]]
            tried = []
            for patterns in inputs:
                for seed in range(4 if mutant["kind"] in ("races", "stale") else 1):
                    plan = proof.plan_text(task, manifest, mutant["workload"], dtype, mutant.get("tunables") or {}, {"patterns": patterns},
                                           builder, kernels, seed + 1, "together", FACTS, "cuda", proof.sample_of(task, names))
                    with tempfile.NamedTemporaryFile("w", suffix=".plan", delete=False) as file:
                        file.write(plan)
                    done = proof.run([str(builder.program(True)), file.name], timeout=120)
                    os.unlink(file.name)
                    answer = json.loads(done.stdout)
                    if "error" in answer:
                        raise proof.Failure(answer["error"])
                    if proof.is_wrong(answer):
                        return dict(entry, wrong=True, workload=mutant["workload"], dtype=dtype, patterns=patterns, seed=seed + 1,
                                    of_permitted=min(answer["mutant"]["of_permitted"], 1e9), what=answer["mutant"]["what"])
                    tried.append("%.3g%s" % (answer["mutant"]["of_permitted"], "" if answer["original"]["of_permitted"] <= 1 else
                                             " (the original: %s)" % answer["original"]["what"]))
            entry["why"] = "not wrong on the inputs tried: " + ", ".join(tried)
        return entry
    except Exception as error:
        return dict(entry, why=str(error)[:300] or repr(error))


def _task(work):
    return prove_one(*work)


def prove(args, entries, source_of):
    import mutants
    card = has_card()
    path = mutants.HERE / ("proofs_cuda.jsonl" if card else "derived_cuda.jsonl")
    known = {e["id"] for e in mutants.read_lines(path)} if not args.again else set()
    derived = {e["id"]: e for e in mutants.read_lines(mutants.HERE / "derived_cuda.jsonl")}
    todo = []
    for m in entries:
        if m["id"] in known or args.only and m["id"] not in args.only:
            continue
        if card and m["id"] in derived and not derived[m["id"]]["derived"]:
            continue
        todo.append((m, mutants.base_text(m["kernel"]), source_of(m), args.cache, card, str(mutants.TASKS / m["task"])))
    progress = mutants.Progress("prove", len(todo))
    if card:  # once, before all workers want it
        proof.Builder(args.cache).program(True)
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool, open(path, "w" if args.again else "a") as out:
        for result in pool.map(_task, todo):
            out.write(json.dumps(result, sort_keys=True) + "\n")
            out.flush()
            progress.step()
    progress.end()
    results = mutants.read_lines(path)
    print("%d of %d %s" % (sum(e["wrong"] if card else e["derived"] for e in results), len(results),
                           "are proven wrong" if card else "compile to other machine code; a card proves them"))
