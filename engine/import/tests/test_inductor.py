# SPDX-License-Identifier: Apache-2.0
"""What torch.compile generates for a GPU that is not there becomes seeds in Triton, which compile and compute the right numbers.

    python test_inductor.py            functions of this file
    python test_inductor.py NAME       one of them, with its seed on the screen

Each seed is compiled for sm_90a by the program that compiles variants in Triton, for every dtype and both alignments, and run by
Triton's interpreter on the CPU at the example's sizes, odd ones and ones, beside PyTorch. Needs PyTorch 2 and Triton.
"""

import json
import linecache
import math
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
PATHS = [os.path.join(ROOT, *p) for p in (("engine", "import"), ("evaluators", "references", "python"),
                                          ("evaluators", "languages", "triton"))]
sys.path[:0] = PATHS
os.environ["TRITON_INTERPRET"] = "1"  # of this process alone

try:
    import torch
    import triton
    import triton.language as tl
    import yaml
except ImportError as missing:
    raise unittest.SkipTest(f"{missing} for {sys.executable}") from None

from triton.runtime import interpreter  # noqa: E402

from cultivar_import import inductor_seed  # noqa: E402
from cultivar_import.inductor import Inexpressible, generated  # noqa: E402
from cultivar_import.subject import load_reference  # noqa: E402

ARCHITECTURE = "sm_90a"
ODD = [{"R": 5, "C": 7}, {"R": 1, "C": 1}, {"R": 9, "C": 70}]
TYPES = {"f32": ("fp32", torch.float32), "bf16": ("bf16", torch.bfloat16), "f16": ("fp16", torch.float16)}

# name: the body of the reference, the inputs' shapes, the outputs (None: the workload's dtype), the dtype of the example and its sizes
FUNCTIONS = {
    "softmax": ("torch.softmax(x, -1)", {"x": ["R", "C"]}, {"y": None}, "float32", {"R": 48, "C": 300}),
    "softmax_many": ("torch.softmax(x, -1)", {"x": ["R", "C"]}, {"y": None}, "float32", {"R": 100000, "C": 2000}),
    "running_sums": ("torch.cumsum(torch.cumsum(x, -1).T.contiguous(), -1)", {"x": ["R", "C"]}, {"y": None}, "bfloat16", {"R": 48, "C": 300}),
    "cross_entropy": ("F.cross_entropy(x, i, reduction='none')", {"x": ["R", "C"], "i": ["R"]}, {"y": None}, "float32", {"R": 48, "C": 3000}),
    "rmsnorm": ("x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w", {"x": ["R", "C"], "w": ["C"]}, {"y": None}, "float32",
                {"R": 48, "C": 3000}),
    "layer_norm": ("F.layer_norm(x, x.shape[-1:], w, b)", {"x": ["R", "C"], "w": ["C"], "b": ["C"]}, {"y": None}, "bfloat16",
                   {"R": 48, "C": 3000}),
    "gelu": ("F.gelu(x + b) * y", {"x": ["R", "C"], "b": ["C"], "y": ["R", "C"]}, {"z": None}, "float32", {"R": 48, "C": 300}),
    "row_sum": ("x.sum(-1)", {"x": ["R", "C"]}, {"y": None}, "float32", {"R": 48, "C": 3000}),
    "column_sum": ("x.sum(0)", {"x": ["R", "C"]}, {"y": None}, "float32", {"R": 3000, "C": 48}),
    "sum": ("x.sum()", {"x": ["R", "C"]}, {"y": None}, "bfloat16", {"R": 3000, "C": 300}),
    "transpose": ("x.T.contiguous() + 1", {"x": ["R", "C"]}, {"y": None}, "float32", {"R": 300, "C": 500}),
    "largest": ("(x.amax(-1), x.argmax(-1), (x > 1).any(-1).to(torch.uint8))", {"x": ["R", "C"]}, {"m": None, "i": "int64", "a": "uint8"},
                "float32", {"R": 48, "C": 300}),
    "whole_norm": ("x / (1 + x.square().sum().sqrt()) + b", {"x": ["R", "C"], "b": ["C"]}, {"y": None}, "bfloat16", {"R": 600, "C": 300}),
    "rows_of_table": ("F.embedding(i, x) * 2", {"i": ["N"], "x": ["R", "C"]}, {"y": None}, "float32", {"N": 100, "R": 48, "C": 300}),
}


def expression(text, values):
    """An expression of a manifest."""
    text = text.replace("&&", " and ").replace("||", " or ").replace("^", "**")
    names = {"floor_div": lambda a, b: a // b, "ceil_div": lambda a, b: -(-a // b), "min": min, "max": max, "floor": math.floor,
             "ceil": math.ceil}
    return eval(text, {"__builtins__": {}}, {**names, **values})


COMPILE = """import json, sys
from cultivar_triton import build, check
try:
    for order in json.load(open(sys.argv[1])):
        build.build(order)
    print("compiled")
except check.Refused as refused:
    print(refused.line, refused.reason, refused.remedy)
"""


class Variant:
    def __init__(self, text):
        self.text = text
        self.manifest = yaml.safe_load(text.split('"""--- cultivar\n', 1)[1].split("---", 1)[0])
        self.tunables = {n: t["default"] for n, t in (self.manifest.get("tunables") or {}).items()}
        self.smallest = {n: min(t["values"]) for n, t in (self.manifest.get("tunables") or {}).items()}

    def values(self, sizes, dtype, tunables=None):
        values = {**sizes, **(tunables or self.tunables), "element_bytes": 4 if dtype == "f32" else 2}
        for name, text in (self.manifest.get("let") or {}).items():
            values[name] = int(expression(text, values))
        return values

    def allows(self, sizes):
        return bool(expression(self.manifest.get("requires", "1 == 1"), sizes))

    def argument(self, given, inputs, dtype):
        """[its text, the type that Triton is told], as order.cpp says it to the compiler."""
        text, kind = (given["value"], given["type"]) if isinstance(given, dict) else (given, "i32")
        if text in inputs:
            return text, f"*{TYPES[dtype][0]}" if inputs[text] is None else f"*{inputs[text].replace('int', 'i')}".replace("ui", "u")
        return text, "*" if text in (self.manifest.get("workspace") or {}) else kind

    def order(self, inputs, sizes, dtype, folder, source):
        values = self.values(sizes, dtype)
        kernels = []
        for launch in self.manifest["launch"]:
            arguments = []
            for text, kind in (self.argument(a, inputs, dtype) for a in map(lambda a: a if isinstance(a, dict) else str(a), launch["args"])):
                known = {"text": text, "type": kind}
                if kind[0] == "*" or values.get(f"aligned_{text}"):
                    known["multiple_of_16"] = True
                arguments.append(known)
            kernels.append({"name": launch["kernel"], "num_warps": values.get(launch["num_warps"], launch["num_warps"]),
                            "num_stages": values.get(launch["num_stages"], launch["num_stages"]), "arguments": arguments})
        constants = {n: {"number": v} for n, v in values.items() if n in self.tunables or n.startswith("aligned_")}
        constants["DTYPE"] = {"dtype": TYPES[dtype][0]}
        return {"source": source, "folder": folder, "constants": constants, "kernels": kernels, "architecture": 90,
                "pointers": [f"*{t}" for t in ("fp64", "fp32", "fp16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8")]}


# Functions of libdevice, which Triton's interpreter does not have.
LIBDEVICE = {name: lambda x, _name=name: getattr(tl, _name)(x) for name in ("exp", "rsqrt", "sqrt", "erf", "log", "sin", "cos")}


def _index(tensor):
    return int(tensor.handle.data.item())


def _patched(usual):
    def patch(tensor, *more):
        done = usual(tensor, *more)
        tensor.__index__ = _index  # Triton's own takes an array of one element for a number, which NumPy no longer does
        return done
    return patch


interpreter._patch_lang_tensor = _patched(interpreter._patch_lang_tensor)


def interpreted(variant, tensors, outputs, sizes, dtype, folder):
    """Runs a variant; the outputs, or words about what it wrote where it must not."""
    path = os.path.join(folder, "interpreted.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(variant.text)
    names = {"__name__": "variant", "__file__": path}
    linecache.checkcache(path)
    exec(compile(variant.text, path, "exec"), names)
    if "libdevice" in names:
        names["libdevice"] = types.SimpleNamespace(**LIBDEVICE)
    values = variant.values(sizes, dtype, variant.smallest)  # the interpreter is slow, and more loops have more than one round
    guard, memory = 64, {}
    for name, (shape, kind) in outputs.items():
        memory[name] = torch.full([math.prod(shape) + guard], 77, dtype=kind)
    for name, space in (variant.manifest.get("workspace") or {}).items():
        memory[name] = torch.full([int(expression(space["bytes"], values)) + guard], 77, dtype=torch.uint8)
    ends = {name: m[-guard:].clone() for name, m in memory.items()}
    for launch in variant.manifest["launch"]:
        kernel = names[launch["kernel"]]
        parameters = kernel.fn.__code__.co_varnames[:kernel.fn.__code__.co_argcount]
        notes = kernel.fn.__annotations__
        given = []
        for parameter, argument in zip(parameters, launch["args"]):
            text = str(argument["value"] if isinstance(argument, dict) else argument)
            if text in tensors:
                given.append(tensors[text])
            elif text in memory:
                note = notes.get(parameter)
                kind = {"*fp32": torch.float32, "*i64": torch.int64, "*i32": torch.int32, "*bf16": torch.bfloat16, "*fp16": torch.float16}
                own = memory[text] if note is None else memory[text].view(kind.get(note, torch.uint8))
                given.append(own)
            else:
                given.append(int(expression(text, values)))
        constants = {p: values.get(p, tl.float32) for p in parameters[len(launch["args"]):]}
        if "DTYPE" in constants:
            constants["DTYPE"] = {"f32": tl.float32, "bf16": tl.bfloat16, "f16": tl.float16}[dtype]
        grid = tuple(int(expression(str(g), values)) for g in launch["grid"])
        kernel[grid](*given, **constants)
    for name, m in memory.items():
        if not torch.equal(m[-guard:], ends[name]):
            return f"{name} was written beyond its end"
    return {name: memory[name][:-guard].reshape(shape) for name, (shape, _) in outputs.items()}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        torch.set_num_threads(1)

    def reference(self, body, names):
        with open(os.path.join(self.folder, "reference.py"), "w", encoding="utf-8") as file:
            file.write(f"import torch\nimport torch.nn.functional as F\n\n\ndef compute({', '.join(names)}):\n    return {body}\n")
        return load_reference(self.folder)

    def seeds(self, body, shapes, outputs, dtype, sizes, timed=None):
        self.compute = self.reference(body, shapes)
        inputs = [(n, s, "int64" if n == "i" else dtype) for n, s in shapes.items()]
        return inductor_seed.seeds_of("tried", self.folder, inputs, list(outputs.items()), sizes, dtype, timed or [sizes],
                                      [*shapes, *outputs, *sizes], ARCHITECTURE)


class Seeds(Case):
    def compiles(self, variant, shapes, outputs, sizes):
        """As evaluators/languages/triton compiles a variant, but for the sandbox."""
        kinds = {**{n: "int64" if n == "i" else None for n in shapes}, **outputs}
        source = os.path.join(self.folder, "variant.py")
        with open(source, "w", encoding="utf-8") as file:
            file.write(variant.text)
        orders = []
        for dtype in TYPES:
            for each in (sizes, {n: 16 * v for n, v in sizes.items()}):
                folder = tempfile.mkdtemp(dir=self.folder)
                orders.append(variant.order(kinds, each, dtype, folder, source))
        with open(os.path.join(self.folder, "orders.json"), "w", encoding="utf-8") as file:
            json.dump(orders, file)
        environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
        done = subprocess.run([sys.executable, "-c", COMPILE, file.name], capture_output=True, text=True,
                              env={**environment, "PYTHONPATH": os.pathsep.join(PATHS)})
        self.assertEqual((done.returncode, done.stdout), (0, "compiled\n"), f"{done.stdout} {done.stderr[-800:]}\n{variant.text}")
        for order in orders:
            for launch in variant.manifest["launch"]:
                with open(os.path.join(order["folder"], launch["kernel"] + ".ptx"), encoding="utf-8") as file:
                    self.assertIn(".entry", file.read())

    def computes(self, variant, shapes, outputs, sizes, dtype):
        torch.manual_seed(3)
        values, kind = variant.values(sizes, dtype), TYPES[dtype][1]
        tensors = {}
        for name, shape in shapes.items():
            concrete = [values.get(s, s) for s in shape]
            tensors[name] = torch.randint(0, min(sizes["R"], sizes["C"]), concrete) if name == "i" else torch.randn(concrete).to(kind)
        exact = self.compute(*[t.double() if t.is_floating_point() else t for t in tensors.values()])
        plain = self.compute(*tensors.values())
        exact, plain = ([r] if isinstance(r, torch.Tensor) else list(r) for r in (exact, plain))
        before = {n: t.clone() for n, t in tensors.items()}
        wanted = {n: (list(e.shape), kind if own is None else getattr(torch, own)) for (n, own), e in zip(outputs.items(), exact)}
        got = interpreted(variant, tensors, wanted, sizes, dtype, self.folder)
        self.assertIsInstance(got, dict, f"{sizes} {dtype}: {got}")
        for name, tensor in tensors.items():
            self.assertTrue(torch.equal(tensor, before[name]), f"{name} was changed")
        for (name, result), e, p in zip(got.items(), exact, plain):
            if not e.is_floating_point():
                self.assertTrue(torch.equal(result, p), f"{name} at {sizes} {dtype}")
                continue
            size = float(e.square().mean().sqrt())
            allowed = 2 * float((p.double() - e).abs().max()) + {"f32": 2e-6, "bf16": 8e-3, "f16": 1e-3}[dtype] * (size + float(e.abs().max()))
            error = float((result.double() - e).abs().max())
            self.assertLessEqual(error, allowed, f"{name} at {sizes} {dtype}")

    def one(self, name):
        body, shapes, outputs, dtype, sizes = FUNCTIONS[name]
        texts = self.seeds(body, shapes, outputs, dtype, sizes)
        for file, text in texts.items():
            if "--show" in sys.argv:
                print(file, text, sep="\n")
            with self.subTest(name=name, file=file):
                variant = Variant(text)
                self.assertIn("no hand work, and not evolved", variant.manifest["about"])
                self.assertIn(torch.__version__.split("+")[0], variant.manifest["about"])
                self.assertIn(", ".join(f"{n} = {v}" for n, v in sizes.items()), text)
                self.assertNotIn("torch._inductor", text)
                self.compiles(variant, shapes, outputs, sizes)
                self.assertTrue(variant.allows({**sizes, **ODD[0]}))
                for each in ({**{n: min(v, 10) for n, v in sizes.items()}, **odd} for odd in ODD):
                    for kind in ("f32", "bf16") if variant.allows(each) else ():
                        self.computes(variant, shapes, outputs, each, kind)


for _name in FUNCTIONS:
    setattr(Seeds, f"test_{_name}", lambda self, _name=_name: self.one(_name))


class Forms(Case):
    def test_block_sizes_warps_and_stages_are_tunables_with_what_torch_compile_tries(self):
        text = self.seeds("x.sum(-1)", {"x": ["R", "C"]}, {"y": None}, "float32", {"R": 5000, "C": 5000})["triton_inductor.py"]
        tunables = Variant(text).manifest["tunables"]
        self.assertLessEqual({"XBLOCK", "R0_BLOCK", "WARPS"}, set(tunables))
        for tunable in tunables.values():
            self.assertIn(tunable["default"], tunable["values"])
        self.assertGreater(len(tunables["R0_BLOCK"]["values"]), 2)

    def test_short_rows_are_another_seed_that_says_how_short(self):
        texts = self.seeds("torch.softmax(x, -1)", {"x": ["R", "C"]}, {"y": None}, "float32", {"R": 48, "C": 300}, [{"R": 48, "C": 300}, {"R": 96, "C": 600}])
        rows = Variant(texts["triton_inductor_rows.py"])
        self.assertTrue(rows.allows({"R": 100000, "C": 1024}))
        self.assertFalse(rows.allows({"R": 1, "C": 1025}))
        self.assertNotIn("for r0_offset", rows.text)
        self.assertTrue(Variant(texts["triton_inductor.py"]).allows({"R": 1, "C": 1025}))
        self.assertNotIn("triton_inductor_rows.py",
                         self.seeds("torch.softmax(x, -1)", {"x": ["R", "C"]}, {"y": None}, "float32", {"R": 48, "C": 300},
                                    [{"R": 48, "C": 300}, {"R": 48, "C": 1025}]))

    def test_offsets_of_32_bits_are_promised_for_no_more_than_they_reach(self):
        variant = Variant(self.seeds("x + 1", {"x": ["R", "C"]}, {"y": None}, "float32", {"R": 48, "C": 300})["triton_inductor.py"])
        self.assertTrue(variant.allows({"R": 2**14, "C": 2**16}))
        self.assertFalse(variant.allows({"R": 2**15, "C": 2**16}))

    def test_a_condition_of_the_trace_is_a_condition_of_the_seed(self):
        variant = Variant(self.seeds("x.view(x.shape[0], 8, -1).sum(1)", {"x": ["R", "C"]}, {"y": None}, "float32",
                                     {"R": 48, "C": 320})["triton_inductor.py"])
        self.assertTrue(variant.allows({"R": 3, "C": 64}))
        self.assertFalse(variant.allows({"R": 3, "C": 65}))

    def test_sizes_that_the_program_fixes_are_required_and_what_is_timed_must_have_them(self):
        fixed, shapes, outputs, sizes = "F.pad(x, (1, 2)).roll(1, 0)", {"x": ["R", "C"]}, {"y": None}, {"R": 64, "C": 48}
        variant = Variant(self.seeds(fixed, shapes, outputs, "float32", sizes)["triton_inductor.py"])
        self.assertTrue(variant.allows(sizes))
        self.assertFalse(variant.allows({"R": 65, "C": 48}))
        self.assertFalse(variant.allows({"R": 64, "C": 49}))
        with self.assertRaises(Inexpressible) as caught:
            self.seeds(fixed, shapes, outputs, "float32", sizes, [sizes, {"R": 65, "C": 48}])
        self.assertIn("R == 64", str(caught.exception))

    def why(self, body, shapes, outputs, sizes, dtype="float32"):
        with self.assertRaises(Inexpressible) as caught:
            self.seeds(body, shapes, outputs, dtype, sizes)
        return str(caught.exception)

    def test_what_is_no_kernel_in_triton_is_refused_by_its_name(self):
        square, sizes = {"x": ["R", "C"], "w": ["C", "N"]}, {"R": 64, "C": 48, "N": 32}
        self.assertIn("extern_kernels.mm", self.why("F.relu(x @ w)", square, {"y": None}, sizes))
        self.assertIn("convolution", self.why("F.conv2d(x[None, None], w[None, None, :3, :3])", square, {"y": None}, sizes))
        self.assertIn("sort", self.why("torch.sort(x.view(-1), 0)[0]", {"x": ["R", "C"]}, {"y": None}, {"R": 640, "C": 480}))
        self.assertIn("atomic", self.why("torch.zeros_like(x).index_add(0, i, x)", {"x": ["R", "C"], "i": ["R"]}, {"y": None},
                                         {"R": 64, "C": 48}))

    def test_outputs_that_are_inputs_or_one_another_are_refused(self):
        self.assertIn("x", self.why("(x, x + 1)", {"x": ["R", "C"]}, {"a": None, "b": None}, {"R": 64, "C": 48}))
        self.assertIn("share", self.why("(lambda y: (y, y))(x + 1)", {"x": ["R", "C"]}, {"a": None, "b": None}, {"R": 64, "C": 48}))

    def test_a_gpu_that_nothing_is_known_of_is_refused(self):
        self.reference("x + 1", ["x"])
        with self.assertRaises(Inexpressible) as caught:
            generated(self.folder, [("x", ["R"], "float32")], {"R": 8}, "sm_77")
        self.assertIn("sm_77", str(caught.exception))

    def test_a_program_that_does_not_end_is_given_up(self):
        with open(os.path.join(self.folder, "reference.py"), "w", encoding="utf-8") as file:
            file.write("def compute(x):\n    while True:\n        pass\n")
        with self.assertRaises(Inexpressible) as caught:
            generated(self.folder, [("x", ["R"], "float32")], {"R": 8}, ARCHITECTURE, seconds=6.0)
        self.assertIn("does not end", str(caught.exception))


if __name__ == "__main__":
    wanted = [a for a in sys.argv[1:] if a in FUNCTIONS]
    unittest.main(argv=[sys.argv[0], *(f"Seeds.test_{w}" for w in wanted), *(a for a in sys.argv[1:] if a not in FUNCTIONS and a != "--show")],
                  verbosity=2)
