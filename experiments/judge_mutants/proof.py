"""Proves apart from the judge that a mutant is wrong: on a shape and values that its kernel claims, the original is right and
the mutant is not (its error is more than MARGIN times the permitted one, or not finite where the oracle is, or it died)."""

import hashlib
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import task_format as tf

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MARGIN = 4.0
HOST_OPTIONS = ["-std=c++20", "-O3", "-march=native", "-ffp-contract=fast", "-fno-exceptions", "-fno-rtti", "-shared",
                "-fPIC", "-nostartfiles"]
FACTS = {"num_cores": 2, "l1_bytes": 32768, "l2_bytes": 1 << 20, "l3_bytes": 32 << 20, "vector_bits": 512,
         "page_bytes": 4096}
try:
    if "avx512f" not in Path("/proc/cpuinfo").read_text():
        FACTS["vector_bits"] = 256
except OSError:
    pass


class Failure(Exception):
    pass


class Task:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.name = self.folder.name
        self.data = tf.parse_yaml((self.folder / "task.yaml").read_text())

    def claimed(self, source, manifest, workload, dtype, chosen=None, facts=FACTS):
        """None if the variant claims the workload, else the reason why not."""
        names = tf.names_of_workload(self.data, workload, dtype)
        if dtype not in self.data["dtypes"]:
            return "the task has no dtype " + dtype
        for text in self.data.get("where") or []:
            if not tf.evaluate(text, names):
                return "the task forbids it: " + text
        if "requires" in manifest and not tf.evaluate(manifest["requires"], names):
            return "not claimed"
        for p in tf.parameters_named(source[:source.index("---*/")], self.data):
            if names[p] != tf.evaluate(self.data["parameters"][p]["default"], names):
                return p + " is not named"
        scope = dict(names)
        scope.update(facts)
        scope.update(tf.tunable_values(manifest, chosen or {}))
        for name, text in (manifest.get("let") or {}).items():
            scope[name] = tf.evaluate(text, scope)
        for text in manifest.get("constraints") or []:
            if not tf.evaluate(text, scope):
                return "a constraint forbids it: " + text
        return None


def run(command, timeout=120, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, **more)


class Builder:
    """Compiles into a cache folder, each thing once."""

    def __init__(self, cache):
        self.cache = Path(cache)
        self.cache.mkdir(parents=True, exist_ok=True)

    def _built(self, name, key, command, keep):
        digest = hashlib.sha256("\0".join([key] + command).encode()).hexdigest()[:24]
        path = self.cache / (name + "_" + digest + (".so" if keep != "program" else ""))
        if not path.exists():
            partial = str(path) + ".%d" % os.getpid()
            done = run(command + ["-o", partial])
            if done.returncode:
                raise Failure("does not compile: " + done.stderr[:300])
            os.replace(partial, path)
        return path

    def program(self, cuda=False):
        key = "".join((HERE / f).read_text() for f in ["prove.cpp", "prove_values.hpp"] + ["prove_cuda.hpp"] * cuda)
        command = ["g++", "-std=c++20", "-O2", "-march=native", str(HERE / "prove.cpp"), "-I", str(HERE), "-I",
                   str(ROOT / "evaluators/references"), "-ldl", "-pthread"]
        if cuda:
            command += ["-DWITH_CUDA"]
        return self._built("prove", key, command, "program")

    def reference(self, task):
        source = task.folder / "reference.cpp"
        return self._built("reference_" + task.name, source.read_text(),
                           ["g++", "-std=c++20", "-O2", "-march=native", "-shared", "-fPIC", str(source), "-I",
                            str(ROOT / "evaluators/references")], "library")

    def kernel(self, source, macros, name):
        text = self.cache / (name + "_%d.cpp" % os.getpid())
        text.write_text(source)
        key = source
        digest = hashlib.sha256((key + "\0".join(macros)).encode()).hexdigest()[:24]
        path = self.cache / ("kernel_" + digest + ".so")
        if not path.exists():
            partial = str(path) + ".%d" % os.getpid()
            done = run(["g++"] + HOST_OPTIONS + ["-D" + m for m in macros] + [str(text), "-o", partial])
            if done.returncode:
                text.unlink()
                raise Failure("does not compile: " + done.stderr[:300])
            os.replace(partial, path)
        text.unlink()
        return path


def plan_text(task, manifest, workload, dtype, chosen, values, builder, kernels, seed=1, order="together", facts=FACTS,
              target="cpu", sample=0):
    data = task.data
    names = tf.names_of_workload(data, workload, dtype)
    lines = ["dtype " + dtype, "seed %d" % seed, "order " + order, "reference %s" % builder.reference(task)]
    tolerance = data.get("tolerance") or {}
    lines.append("tolerance %s %s %s" % (tolerance.get("factor", 2), tolerance.get("floor_eps", 64),
                                         tolerance.get("block_rows", 64)))
    for group in ("dimensions", "parameters", "let"):
        for name in data.get(group) or {}:
            lines.append("number %s %.17g" % (name, names[name]))
    groups, tensors = [], {}
    derived = data.get("derived") or {}
    for name, entry in data["tensors"].items():
        kind = entry.get("dtype", dtype)
        shape = [names[d] for d in entry["shape"]]
        tensors[name] = entry
        if entry["role"] == "input":
            lines.append("input %s %s %s" % (name, kind, " ".join(map(str, shape))))
            if name in derived.get("inputs", []):
                continue
            fill = dict({"kind": "normal"}, **(entry.get("fill") or {}))
            fill.update(values.get("fills", {}).get(name, {}))
            default = {"normal": (0, 1)}.get(fill["kind"], (0, 1))
            a, b = (tf.evaluate(str(fill[k]), names) if k in fill else default[i] for i, k in enumerate("ab"))
            axis = fill.get("axis", 0)
            axis = 0 if axis == "all" else int(axis)
            line = "fill %s %s %.17g %.17g %d" % (name, fill["kind"], a, b, axis)
            if "instead" in fill:
                line += " %.17g %s" % (tf.evaluate(str(fill["instead"]), names), fill["share"])
            lines.append(line)
        else:
            rows = entry.get("rows", data["rows"])
            if rows not in groups:
                groups.append(rows)
                lines.append("group %d %s" % (sample, " ".join(str(names[r]) for r in rows)))
            places = ["%d:%d" % (names[d], rows.index(d)) if d in rows else str(names[d]) for d in entry["shape"]]
            lines.append("output %s %s %d %s" % (name, kind, groups.index(rows), " ".join(places)))
    if derived:
        lines.append("derived_rows " + " ".join(str(names[r]) for r in derived["rows"]))
        for name in derived["inputs"]:
            lines.append("derived %s %s" % (name, " ".join(
                str(derived["rows"].index(d)) if d in derived["rows"] else "-1" for d in tensors[name]["shape"])))
    lines += ["pattern " + p for p in values.get("patterns", [])]

    scope = dict(names)
    scope.update(facts)
    scope.update(tf.tunable_values(manifest, chosen))
    for name, text in (manifest.get("let") or {}).items():
        scope[name] = tf.evaluate(text, scope)
    for name, entry in (manifest.get("workspace") or {}).items():
        lines.append("workspace %s %d %d" % (name, tf.evaluate(entry["bytes"], scope), entry.get("zero") == "true"))
    parameters = data.get("parameters") or {}
    for launch in manifest["launch"]:
        for step in range(int(tf.evaluate(launch.get("repeat", "1"), scope))):
            scope["step"] = step
            if "when" in launch and not tf.evaluate(launch["when"], scope):
                continue

            def numbers(key, count=3):
                texts = launch.get(key) or ["1"] * count
                return " ".join(str(int(tf.evaluate(t, scope))) for t in texts)
            threads = int(tf.evaluate(launch.get("threads", "num_cores"), scope)) if target == "cpu" else 1
            args = []
            for arg in launch["args"]:
                if isinstance(arg, dict):
                    kind = arg["type"]
                    value = tf.evaluate(arg["value"], scope)
                    args.append(("f32=%.9g" if kind == "f32" else "%s=%%d" % kind) % value)
                elif arg in tensors or arg in (manifest.get("workspace") or {}):
                    args.append("tensor=" + arg)
                elif arg in ("thread", "threads"):
                    args.append(arg + "=0")
                elif arg in parameters and parameters[arg]["type"] == "f32":
                    args.append("f32=%.9g" % names[arg])
                elif arg in parameters and parameters[arg]["type"] not in ("flag", "i32"):
                    raise Failure("cannot pass " + arg)
                else:
                    args.append("i32=%d" % tf.evaluate(arg, scope))
            lines.append("launch %s %d %s %s %s %d %d %s" % (
                launch["kernel"], threads, numbers("grid"), numbers("block"), numbers("cluster"),
                int(tf.evaluate(launch.get("shared", "0"), scope)), launch.get("cooperative") == "true", " ".join(args)))
    for kernel in kernels:
        lines.append("kernel %s" % kernel)
    return "\n".join(lines) + "\n"


class Pair:
    """A kernel and its mutant, or a kernel alone, compiled once for all inputs with the same macros."""

    def __init__(self, task, original, mutant, builder, chosen=None):
        self.task, self.original, self.mutant, self.builder, self.chosen = task, original, mutant, builder, chosen or {}
        self.manifest = tf.read_manifest(original)
        self.mutants = {}

    def run(self, workload, dtype="f32", values=None, order="together", seed=1):
        """What prove.cpp says of both on one input."""
        why = self.task.claimed(self.original, self.manifest, workload, dtype, self.chosen)
        if why:
            raise Failure(why)
        names = tf.names_of_workload(self.task.data, workload, dtype)
        macros = tf.macros_of(self.manifest, self.task.data, names, self.chosen, dtype, "cpu")
        kernels = [self.builder.kernel(self.original, macros, "original")]
        if self.mutant is not None:
            key = tuple(macros)
            if key not in self.mutants:
                self.mutants[key] = self.builder.kernel(self.mutant, macros, "mutant")
            kernels.append(self.mutants[key])
        text = plan_text(self.task, self.manifest, workload, dtype, self.chosen, values or {}, self.builder, kernels, seed,
                         order, sample=sample_of(self.task, names))
        with tempfile.NamedTemporaryFile("w", suffix=".plan", delete=False) as file:
            file.write(text)
        try:
            done = run([str(self.builder.program()), file.name], timeout=300)
        finally:
            os.unlink(file.name)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise Failure("prove: code %d %s %s" % (done.returncode, done.stdout[:200], done.stderr[:200]))

    def close(self):
        for path in self.mutants.values():
            path.unlink(missing_ok=True)


def sample_of(task, names):
    """How many rows are compared: all (0) of small tensors."""
    most = 0
    for entry in task.data["tensors"].values():
        count = 1
        for d in entry["shape"]:
            count *= names[d]
        most = max(most, count)
    return 0 if most <= 1500000 else 192


def is_wrong(answer):
    return answer["original"]["of_permitted"] <= 1.0 and answer["mutant"]["of_permitted"] > MARGIN
