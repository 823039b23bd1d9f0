# SPDX-License-Identifier: Apache-2.0
"""Tests of what an import of KernelBench writes beside its tasks: python -m unittest discover -s engine/import/tests."""

import os
import sys
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import test_import  # noqa: E402  (its Case, and the paths)

import torch  # noqa: E402

from cultivar_import import kernelbench  # noqa: E402
from cultivar_import.subject import load_reference  # noqa: E402


class ModelNew(test_import.Case):
    """model_new.py with the reference as the operator computes what the problem's Model does."""

    def check(self, text):
        done = self.run_import(text)
        problem = {}
        with open(os.path.join(self.out, "model.py"), encoding="utf-8") as file:
            exec(file.read(), problem)
        compute = load_reference(self.out)
        calls = []

        def operator(*tensors):
            for item, tensor in zip(done.inputs, tensors):
                held = torch.uint8 if item.dtype == torch.bool else item.dtype
                self.assertEqual((tensor.dtype, tensor.dim()), (held, len(item.shape)), item.name)
            self.assertEqual(len(tensors), len(done.inputs))
            calls.append(tensors)
            return compute(*tensors)

        problem.update(_operator=operator, _Model=problem["Model"])
        with open(os.path.join(self.out, "model_new.py"), encoding="utf-8") as file:
            exec(file.read(), problem)
        given = problem["get_init_inputs"]()
        torch.manual_seed(1)
        right = problem["Model"](*given)
        torch.manual_seed(1)
        new = problem["ModelNew"](*given)
        inputs = problem["get_inputs"]()
        expected = right(*inputs)
        made = new(*[x.float() if isinstance(x, torch.Tensor) else x for x in inputs])
        self.assertEqual(len(calls), 1)
        torch.testing.assert_close(made, expected)
        return new, inputs

    def test_parameters_buffers_and_batch_statistics(self):
        self.check(test_import.Tasks.KERNELBENCH)

    def test_numbers_whole_numbers_and_masks(self):
        new, inputs = self.check('''
            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.parts = nn.ModuleList([nn.Linear(24, 24), nn.Linear(24, 24)])
                    self.register_buffer("shift", torch.linspace(-1.0, 1.0, 24))

                def forward(self, x, index, mask, s, p=2):
                    y = self.parts[1](torch.tanh(self.parts[0](x + self.shift))) * s
                    return y.index_select(0, index).masked_fill(mask, 0.0), y > 0.5

            def get_inputs():
                return [torch.randn(40, 24), torch.randint(0, 40, (12,)), torch.rand(12, 24) > 0.5, 1.5]

            def get_init_inputs():
                return []
        ''')
        with self.assertRaisesRegex(ValueError, "s = 1.5"):
            new(*inputs[:3], 2.5)

    def test_programs_whose_constants_are_drawn_have_none(self):
        done = self.run_import('''
            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("shift", torch.randn(24))

                def forward(self, x):
                    return torch.tanh(x + self.shift)

            def get_inputs():
                return [torch.randn(40, 24)]

            def get_init_inputs():
                return []
        ''')
        self.assertFalse(os.path.exists(os.path.join(self.out, "model_new.py")))
        self.assertTrue(any("shift" in a for a in done.to_check), done.to_check)

    def test_other_programs_have_none(self):
        self.run_import('''
            def f(x):
                return torch.tanh(x)

            def get_inputs():
                return [torch.randn(64, 32)]
        ''')
        self.assertFalse(os.path.exists(os.path.join(self.out, "model_new.py")))


class Suites(unittest.TestCase):
    OPTIONS = types.SimpleNamespace(level=1, budget="7m", memory_factor=1.0)
    ROWS = [{"number": 3, "folder": "l1_3_a", "task": "a", "seeds": ["naive.cpp", "cuda_naive.cu"], "sets": ["example", "example_holdout"]},
            {"number": 4, "folder": "l1_4_b", "task": "b", "seeds": ["naive.cpp"], "sets": ["example"]},
            {"number": 5, "folder": "l1_5_c", "refused": 'It is "constant": no task.'}]

    def test_problems_without_a_task_or_a_seed_are_named_with_the_reason(self):
        text = kernelbench.suite_text(self.OPTIONS, "cuda", self.ROWS)
        self.assertIn("- {name: l1_3_a, task: ./l1_3_a, holdout: example_holdout}", text)
        self.assertNotIn("name: l1_4_b", text)
        self.assertIn("  l1_4_b: \"No kernel could be derived", text)
        self.assertIn('  l1_5_c: "It is \\"constant\\": no task."', text)
        self.assertIn("budget: {wall: 7m}", text)
        other = kernelbench.suite_text(self.OPTIONS, "cpu", self.ROWS)
        self.assertIn("- {name: l1_4_b, task: ./l1_4_b}", other)
        self.assertIn("workloads: cpu_quick", other)


if __name__ == "__main__":
    unittest.main()
