# SPDX-License-Identifier: Apache-2.0
"""Tests of the import: python -m unittest discover -s engine/import/tests (needs PyTorch 2)."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
PATHS = [os.path.join(ROOT, "engine", "import"), os.path.join(ROOT, "evaluators", "references", "python")]
sys.path[:0] = PATHS

if importlib.util.find_spec("torch") is None:
    raise unittest.SkipTest("PyTorch is not installed for " + sys.executable)

import torch  # noqa: E402

from cultivar_import import probe, shapes  # noqa: E402
from cultivar_import.importer import Import  # noqa: E402
from cultivar_import.refusal import Refusal  # noqa: E402
from cultivar_import.subject import load_reference  # noqa: E402


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        torch.set_num_threads(1)

    def write(self, text, name="program.py"):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n" + textwrap.dedent(text))
        return path

    def run_import(self, text, program=None, **options):
        self.out = os.path.join(self.folder, "task")
        shutil.rmtree(self.out, True)
        options.setdefault("seconds", 6.0)
        return Import(self.write(text), program, self.out, say=lambda _: None, **options).run()

    def refuses(self, text, words, program=None):
        with self.assertRaises(Refusal) as caught:
            self.run_import(text, program)
        self.assertIn(words.lower(), str(caught.exception).lower())
        self.assertTrue(caught.exception.remedy, "a refusal names a remedy")
        return caught.exception

    def yaml(self):
        with open(os.path.join(self.out, "task.yaml"), encoding="utf-8") as file:
            return file.read()


class Tasks(Case):
    def test_function(self):
        done = self.run_import('''
            def softmax(x):
                """Softmax of each row."""
                return torch.softmax(x, -1)

            def get_inputs():
                return [torch.randn(512, 1000)]
        ''')
        self.assertEqual(done.name, "softmax")
        self.assertEqual(done.dims.shapes, [["R", "C"]])
        self.assertEqual(done.dims.outputs, [["R", "C"]])
        self.assertEqual(done.rows, ["R"])
        self.assertEqual(done.dtypes, ["f32", "bf16", "f16"])
        self.assertEqual(done.fills["x"], {"kind": "normal", "a": 0.0, "b": 1.0})
        names = [mistake.name for mistake, _ in done.controls]
        self.assertTrue(any(n.startswith("cut_") for n in names), names)
        for each in ("model.py", "reference.py", "task.yaml", "contenders/torch_eager.py", "contenders/torch_compile.py", "seeds"):
            self.assertTrue(os.path.exists(os.path.join(self.out, each)), each)
        with open(os.path.join(self.out, "model.py")) as copy, open(os.path.join(self.folder, "program.py")) as own:
            self.assertEqual(copy.read(), own.read())
        compute = load_reference(self.out)
        x = torch.randn(3, 7, dtype=torch.float64)
        self.assertTrue(torch.equal(compute(x), torch.softmax(x, -1)))
        text = self.yaml()
        for key in ("dimensions:", "dtypes:", "rows: [R]", "controls:", "smoke:", "sweep:", "stress_shapes:", "edge:", "cpu_quick:", "example:",
                    "holdout:", "{R: 512, C: 1000}"):
            self.assertIn(key, text)
        listed = re.findall(r"\{R: \d+, C: \d+\}", text.split("  holdout:")[1])
        before = text.split("workload_sets:")[1].split("  holdout:")[0]
        self.assertTrue(listed and all(w not in before for w in listed), "holdout shapes are not listed elsewhere")
        spec = importlib.util.spec_from_file_location("eager", os.path.join(self.out, "contenders", "torch_eager.py"))
        eager = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(eager)
        self.assertTrue(torch.equal(eager.prepare(None, {"x": x})({"x": x})[0], torch.softmax(x, -1)))

    def test_module(self):
        done = self.run_import('''
            class Block(nn.Module):
                def __init__(self, width=96):
                    super().__init__()
                    self.norm = nn.BatchNorm1d(width)
                    self.linear = nn.Linear(width, 48)
                    self.dropout = nn.Dropout(0.5)

                def forward(self, x):
                    return F.relu(self.dropout(self.linear(self.norm(x))))

            example_inputs = [torch.randn(64, 96)]
        ''')
        self.assertFalse(done.subject.training)
        shapes_of = {i.name: s for i, s in zip(done.inputs, done.dims.shapes)}
        self.assertEqual(shapes_of["x"][1], shapes_of["norm_running_var"][0])
        self.assertEqual(shapes_of["linear_weight"][1], shapes_of["x"][1])
        self.assertEqual(done.dims.outputs[0], [shapes_of["x"][0], shapes_of["linear_weight"][0]])
        self.assertEqual(done.fills["norm_running_var"]["kind"], "uniform")
        self.assertEqual(done.fills["norm_weight"], {"kind": "normal", "a": 1.0, "b": 0.25})
        self.assertIn("1 / sqrt(3 * ", done.fills["linear_weight"]["b"])
        with open(os.path.join(self.out, "reference.py")) as file:
            self.assertIn("functional_call", file.read())
        compute = load_reference(self.out)
        for dtype in (torch.float32, torch.float64, torch.bfloat16):  # other sizes and dtypes than the example's
            given = compute(torch.randn(3, 5, dtype=dtype), *[
                torch.rand(s, dtype=dtype) for s in ([5], [5], [4, 5], [4], [5], [5])])
            self.assertEqual((given.dtype, tuple(given.shape)), (dtype, (3, 4)))

    KERNELBENCH = '''
        class Model(nn.Module):
            def __init__(self, in_channels, out_channels, kernel_size):
                super().__init__()
                self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
                self.bn = nn.BatchNorm2d(out_channels)

            def forward(self, x):
                return F.relu(self.bn(self.conv(x)))

        batch_size = 64
        in_channels = 8
        out_channels = 16
        height, width = 64, 80

        def get_inputs():
            return [torch.rand(batch_size, in_channels, height, width)]

        def get_init_inputs():
            return [in_channels, out_channels, 3]
    '''

    def test_kernelbench(self):
        done = self.run_import(self.KERNELBENCH)
        self.assertTrue(done.subject.training, "a KernelBench file is taken as its benchmark takes it")
        row = dict(zip([i.name for i in done.inputs], done.dims.shapes))
        self.assertEqual(row["x"][:2], ["batch_size", "in_channels"])
        self.assertEqual(row["conv_weight"], ["out_channels", "in_channels", 3, 3])
        self.assertNotIn("conv_bias", row, "batch statistics remove it")
        self.assertTrue(any("conv_bias" in a for a in done.assumed))
        self.assertEqual(done.rows, [], "batch statistics tie all rows")
        self.assertEqual(done.fills["x"], {"kind": "uniform", "a": 0.0, "b": 1.0})
        self.assertTrue(any("- 2" in r for r in done.dims.relations()))

    def test_indices_and_masks(self):
        done = self.run_import('''
            def pick(table, index, mask):
                return torch.where(mask[:, None], table[index], table[index] * 0.5)

            def get_inputs():
                return [torch.randn(1000, 64), torch.randint(0, 1000, (300,)), torch.randint(0, 2, (300,)).bool()]
        ''')
        self.assertEqual(done.fills["index"]["b"], done.dims.shapes[0][0])
        self.assertEqual(done.input_dtype(done.inputs[1]), "i64")
        self.assertEqual(done.input_dtype(done.inputs[2]), "u8")
        self.assertEqual(done.fills["mask"], {"kind": "integers", "a": 0, "b": 2})

    def test_several_outputs_and_rows(self):
        done = self.run_import('''
            def both(x, w):
                return torch.tanh(x * w), (x * w).sum(0)

            def get_inputs():
                return [torch.randn(200, 64), torch.randn(64)]
        ''')
        self.assertEqual(len(done.dims.outputs), 2)
        self.assertEqual(done.rows_of[0], ["R"])
        self.assertIn("rows:", self.yaml().split("role: output")[2].splitlines()[0])

    def test_fields_are_names(self):
        done = self.run_import('''
            def route(x):
                values, experts = torch.topk(x, 2)
                return {"weights": torch.softmax(values, -1), "experts": experts}

            def get_inputs():
                return [torch.randn(200, 64)]
        ''')
        self.assertEqual(done.output_names, ["weights", "experts"])
        self.assertEqual(done.unruled, [])
        self.assertEqual(done.seeds, ["naive.cpp", "cuda_naive.cu"])
        self.assertIn("zeros", [name for name, _, _ in done.stress], "ties are right")

    def test_a_size_that_is_no_smaller_than_another(self):
        done = self.run_import('''
            def pick(x, v):
                return v[:, x.argmax(1)]

            def get_inputs():
                return [torch.randn(200, 64), torch.randn(30, 64)]
        ''', seconds=60.0)  # what is not found within them is left
        relations = done.dims.relations()
        self.assertTrue(any(re.fullmatch(r"C2 >= C", r) for r in relations), relations)

    def test_sizes_that_are_not_all_one(self):
        done = self.run_import('''
            def normed(x):
                return F.batch_norm(x, None, None, training=True)

            def get_inputs():
                return [torch.rand(8, 6, 32, 24)]
        ''', seconds=60.0)
        texts = done.dims.relations()
        self.assertTrue(any(" > 1" in t and t.count("*") == 2 for t in texts), texts)
        product = next(t for t in texts if " > 1" in t).split(" > ")[0].split("*")
        for sizes in [done.smoke, *done.sweep, *done.edge]:
            self.assertTrue(any(sizes[n.strip()] > 1 for n in product), sizes)

    def test_in_place(self):
        done = self.run_import('''
            def update(x, y):
                x.mul_(2).add_(y)
                y[:, 0] += 1
                return x

            def get_inputs():
                return [torch.randn(200, 64), torch.randn(200, 64)]
        ''')
        self.assertEqual(done.in_place, {0: "x", 1: "y"})
        self.assertIn("  x_out: {role: output, shape: [R, C], in_place: x}", self.yaml())
        self.assertIn("  y_out: {role: output, shape: [R, C], in_place: y}", self.yaml())
        x, y = torch.randn(3, 7, dtype=torch.float64), torch.randn(3, 7, dtype=torch.float64)
        kept = x.clone(), y.clone()
        got = load_reference(self.out)(x, y)
        self.assertTrue(torch.equal(x, kept[0]) and torch.equal(y, kept[1]), "the reference is a function")
        self.assertTrue(torch.equal(got[0], 2 * x + y) and torch.equal(got[1][:, 0], y[:, 0] + 1))

    def test_depthwise_channels_are_those_of_the_groups(self):
        done = self.run_import('''
            class Depthwise(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(16, 16, 3, padding=1, groups=16)

                def forward(self, x):
                    return self.conv(x)

            def get_inputs():
                return [torch.randn(2, 16, 20, 20)]
        ''')
        self.assertEqual(done.dims.shapes[1:], [[16, 1, 3, 3], [16]])

    def test_attention_ties_lengths(self):
        done = self.run_import('''
            def attention(q, k, v):
                return F.scaled_dot_product_attention(q, k, v)

            def get_inputs():
                return [torch.randn(2, 4, 64, 32), torch.randn(2, 4, 96, 32), torch.randn(2, 4, 96, 32)]
        ''')
        q, k, v = done.dims.shapes
        self.assertEqual(k[2], v[2])
        self.assertNotEqual(q[2], k[2])
        self.assertEqual(done.rows[:3], q[:3])

    def test_program_is_named(self):
        text = '''
            def one(x):
                return torch.tanh(x)

            def two(x):
                return torch.sigmoid(x)

            def get_inputs():
                return [torch.randn(64, 64)]
        '''
        self.refuses(text, "several programs")
        self.assertEqual(self.run_import(text, "two").name, "two")

    def test_local_files(self):
        self.write("def helper(x):\n    return torch.tanh(x)\n", "own_helper.py")
        self.run_import('''
            from own_helper import helper

            def f(x):
                return helper(x)

            def get_inputs():
                return [torch.randn(64, 64)]
        ''')
        self.assertTrue(os.path.exists(os.path.join(self.out, "own_helper.py")))


class Refusals(Case):
    EXAMPLE = '''
            def get_inputs():
                return [torch.randn(64, 64)]
    '''

    def f(self, body, arguments="x"):
        lines = "\n".join("                " + line for line in body.split("\n"))
        return f"\n            def f({arguments}):\n{lines}\n" + self.EXAMPLE

    def test_no_examples(self):
        refusal = self.refuses("def f(x, w):\n    return x @ w\n", "no example inputs")
        self.assertIn("def get_inputs():", refusal.remedy)

    def test_missing_file(self):
        with self.assertRaises(Refusal):
            Import(os.path.join(self.folder, "nothing.py"), None, self.folder, say=lambda _: None)

    def test_syntax(self):
        self.refuses("def f(x:\n", "program.py")

    def test_missing_import(self):
        self.refuses("import surely_missing_package\n" + textwrap.dedent(self.f("return x")), "surely_missing_package")

    def test_random(self):
        self.refuses(self.f("return x + torch.rand_like(x)"), "random")

    def test_live_dropout(self):
        self.refuses(self.f("return F.dropout(x, 0.5, training=True)"), "random")

    def test_constant(self):
        self.refuses(self.f("return torch.relu(-x * x)"), "constant")

    def test_nearly_constant(self):
        self.refuses(self.f("return 1e5 + torch.tanh(x)"), "nearly constant")

    def test_no_influence(self):
        done = self.run_import('''
            def f(x, unused):
                return torch.tanh(x)

            def get_inputs():
                return [torch.randn(64, 64), torch.randn(64)]
        ''')
        self.assertEqual([i.name for i in done.inputs], ["x"])
        self.assertTrue(any("unused" in a for a in done.assumed))

    def test_state_in_a_buffer(self):
        self.refuses('''
            class Counting(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(64))

                def forward(self, x):
                    self.scale.data.mul_(1.5)
                    return x * self.scale
        ''' + self.EXAMPLE, "state")

    def test_state(self):
        self.refuses('''
            count = []

            def f(x):
                count.append(1)
                return x * len(count)
        ''' + self.EXAMPLE, "state")

    def test_state_by_shape(self):
        self.refuses('''
            class Cached(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.known = {}

                def forward(self, x):
                    if x.shape not in self.known:
                        self.known[x.shape] = x.mean()
                    return x - self.known[x.shape]
        ''' + self.EXAMPLE, "state")

    def test_not_finite(self):
        self.refuses(self.f("return torch.log(x)"), "not finite")

    def test_not_a_tensor(self):
        self.refuses(self.f("return 3.0"), "not a tensor")

    def test_shapes_from_values(self):
        self.refuses(self.f("return x[x > 0]"), "depends on values")

    def test_complex(self):
        self.refuses(self.f("return torch.fft.fft(x)"), "complex")

    def test_complex_input(self):
        self.refuses("def f(x):\n    return x.abs()\n\ndef get_inputs():\n    return [torch.randn(8, 8, dtype=torch.complex64)]\n", "complex")

    def test_class_that_is_no_module(self):
        self.refuses("class Thing:\n    pass\n", "not a torch.nn.Module", "Thing")

    def test_arguments_of_the_constructor(self):
        self.refuses("class Net(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n", "needs width")

    def test_hostile_text(self):
        self.refuses("import sys\nsys.exit(3)\n", "fails when it is read")


class CommandLine(Case):
    def command(self, *arguments):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)}
        return subprocess.run([sys.executable, "-m", "cultivar_import", *arguments], capture_output=True, text=True, env=environment)

    def test_task_and_refusal(self):
        path = self.write("def f(x):\n    return torch.tanh(x)\n\ndef get_inputs():\n    return [torch.randn(64, 64)]\n")
        out = os.path.join(self.folder, "out")
        done = self.command(path + ":f", "--out", out, "--name", "mine")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mine:", done.stdout)
        self.assertIn("probing", done.stderr)
        again = self.command(path, "--out", out)
        self.assertEqual(again.returncode, 1)
        other = os.path.join(self.folder, "other")
        refused = self.command(path + ":g", "--out", other)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("defines no g", refused.stdout)
        self.assertFalse(os.path.exists(other))

    def test_kernelbench(self):
        level = os.path.join(self.folder, "bench", "KernelBench", "level1")
        os.makedirs(level)
        for name, text in (("1_tanh.py", "return torch.tanh(x)"), ("2_exit.py", "import os; os._exit(5)"), ("3_noise.py",
                                                                                              "return x + torch.randn_like(x)")):
            with open(os.path.join(level, name), "w", encoding="utf-8") as file:
                file.write(f"import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n        {text}\n\n"
                           "def get_inputs():\n    return [torch.rand(64, 64)]\n\ndef get_init_inputs():\n    return []\n")
        out = os.path.join(self.folder, "tasks")
        done = self.command("--kernelbench", os.path.join(self.folder, "bench"), "--level", "1", "--problems", "1-3", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 problems, 1 tasks, 2 refused", done.stdout)
        with open(os.path.join(out, "table.md"), encoding="utf-8") as file:
            table = file.read()
        self.assertIn("random", table)
        self.assertIn("ended with status 5", table)


if __name__ == "__main__":
    unittest.main()
