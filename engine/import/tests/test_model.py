# SPDX-License-Identifier: Apache-2.0
"""Tests of campaigns: profile of a whole model, its regions, and the package that puts kernels back (needs PyTorch 2)."""

import copy
import importlib
import importlib.util
import json
import os
import pickle
import shutil
import sys
import time
import types
import unittest
import unittest.mock
import xml.dom.minidom
from pathlib import Path

from test_import import Case  # its paths to cultivar_import, and SkipTest without PyTorch

import torch
from cultivar_import import fast_verify, model_apply, model_functions, model_profile, model_regions, model_times
from cultivar_import.importer import Import
from cultivar_import.model_profile import Profile
from cultivar_import.model_source import WholeModel
from cultivar_import.refusal import Refusal

TRANSFORMER = """
    class Norm(nn.Module):
        def __init__(self, width, eps=1e-6):
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.rand(width) + 0.5), eps

        def forward(self, x):
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

        def forward(self, x):
            b, s, w = x.shape
            q, k, v = self.qkv(x).view(b, s, 3, 4, w // 4).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(b, s, w))

    class Mlp(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

        def forward(self, x, scale=1.0):
            return self.down(F.gelu(self.up(x))) * scale

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm1, self.norm2, self.attention, self.mlp = Norm(width), Norm(width), Attention(width), Mlp(width)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x), scale=0.5)

    class Transformer(nn.Module):
        def __init__(self, width=64, layers=3):
            super().__init__()
            self.embed = nn.Embedding(50, width)
            self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
            self.norm = Norm(width, 1e-5)

        def forward(self, tokens):
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x)
            return self.norm(x)

    def build():
        return Transformer()

    def inputs():
        return torch.randint(0, 50, (4, 32))
    """
CONVNET = """
    class Stage(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)

        def forward(self, x):
            return torch.relu(self.norm(self.conv(x))) + x

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.stages = nn.Conv2d(3, 16, 3, padding=1), nn.Sequential(Stage(16), Stage(16))
            self.head = nn.Linear(16, 10)

        def forward(self, image):
            return self.head(self.stages(self.stem(image)).mean((2, 3)))

    def images():
        return {"image": torch.randn(2, 3, 24, 24)}
    """


class Models(Case):
    def setUp(self):
        super().setUp()
        kept, model_times.BASELINES = model_times.BASELINES, {"cpu": {"eager": None}}
        self.addCleanup(setattr, model_times, "BASELINES", kept)
        self.camp = os.path.join(self.folder, "camp")

    def profile(self, text, name, inputs, **options):
        shutil.rmtree(self.camp, True)
        return Profile(f"{self.write(text)}:{name}", inputs, self.camp, **options).run()

    def facts(self):
        with open(os.path.join(self.camp, "profile.json"), encoding="utf-8") as file:
            return json.load(file)


class Profiles(Models):
    def test_operations_of_fused_attention_are_counted_also_with_fewer_heads_of_keys(self):
        q, kv = torch.empty(2, 8, 16, 64, device="meta"), torch.empty(2, 2, 48, 64, device="meta")
        with torch.utils.flop_counter.FlopCounterMode(display=False, custom_mapping=model_times.ATTENTION) as counter:
            torch.ops.aten._scaled_dot_product_flash_attention(q, kv, kv)
        self.assertEqual(counter.get_total_flops(), 4 * 2 * 8 * 16 * 48 * 64)

    def test_what_a_region_costs_in_the_compiled_model_is_measured_by_leaving_it_out(self):
        slow = torch.library.custom_op("cultivar_test::slow", lambda x: (time.sleep(0.2), x * 2)[1], mutates_args=(),
                                       schema="(Tensor x) -> Tensor")
        slow.register_fake(torch.empty_like)
        owner = types.SimpleNamespace(__name__="owner", twice=lambda x: slow(x))

        class Part(torch.nn.Module):
            def forward(self, x):
                return owner.twice(x)

        class Whole(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.part = Part()

            def forward(self, x):
                return self.part(x + 1) - 1

        known = model_functions.Known("doubled", None, owner, "twice", lambda x: None)
        for functions, kind in (([], "Part"), ([known], "twice")):
            model = Whole().eval()
            parts = model_regions.parts_of(model, (torch.ones(3, 4),), {}, functions)
            region = next(r for r in model_regions.regions_of(parts) if r.kind == kind)
            saved = model_times.without(model, region, {"backend": "aot_eager"}, lambda seed: ((torch.rand(3, 4),), {}), "cpu", pairs=3)
            self.assertGreater(saved.median, 0.1)
            self.assertIs(owner.twice, known.original)

    def test_equal_layers_are_one_region_and_other_settings_another(self):
        self.profile(TRANSFORMER, "build", "inputs", least=0.0)
        found = {tuple(r["paths"]): r for r in self.facts()["regions"]}
        mlp = found[tuple(f"blocks.{k}.mlp" for k in range(3))]
        self.assertEqual((mlp["class"], mlp["calls"]), ("Mlp", 3))
        self.assertEqual(mlp["arguments"], {"x": {"shape": [4, 32, 64], "dtype": "float32", "stride": [2048, 64, 1]},
                                            "scale": {"value": "0.5"}})
        self.assertEqual(sorted(len(p) for p, r in found.items() if r["class"] == "Norm"), [1, 6])  # the last has another eps
        self.assertIn("no input is floating point", found[("embed",)]["left_out"])

    def test_the_profile_says_what_could_be_gained_and_draws_it(self):
        profile = self.profile(TRANSFORMER, "build", "inputs", least=0.0)
        facts = self.facts()
        for region in facts["regions"]:
            self.assertAlmostEqual(region["gain_ms"], max(0.0, region["alone_ms"] - region["floor_ms"]) if region["floor_ms"] else 0.0)
        self.assertEqual(facts["fastest"], "eager")
        xml.dom.minidom.parse(os.path.join(self.camp, "profile.svg"))
        with open(os.path.join(self.camp, "profile.md"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("| blocks.0 (Block) | 3 | x f32[4, 32, 64] |", page)
        self.assertEqual([r["name"] for r in profile.summary()["regions"]], [r.name for r in profile.chosen])

    def test_nothing_worth_doing_is_an_answer(self):
        profile = self.profile(TRANSFORMER, "build", "inputs", least=1.5)
        self.assertEqual(profile.chosen, [])
        self.assertIn("Nothing is worth doing", profile.report())
        self.assertEqual([f for f in os.listdir(os.path.join(self.camp, "source")) if f.startswith("region_")], [])

    def test_a_region_makes_way_for_its_parts_only_if_they_hold_most_of_what_could_be_gained(self):
        profile = self.profile(TRANSFORMER, "build", "inputs", least=0.0)
        total = profile.total.median

        def choose(shares):
            for region in profile.regions:
                region.why_not, region.name = "", ""
                region.base = model_times.Times([shares.get(region.kind, 0.0) * total])
                region.floor = 1e-6 * total
            profile._choose()
            return {r.kind for r in profile.chosen}

        self.assertEqual(choose({"Block": 0.9, "Attention": 0.5, "Mlp": 0.35}), {"Attention", "Mlp"})
        self.assertEqual(choose({"Block": 0.9, "Attention": 0.3, "Mlp": 0.3}), {"Block", "Attention", "Mlp"})

    def test_the_file_of_a_region_computes_what_the_model_computes_there(self):
        profile = self.profile(CONVNET, "Net", "images", least=0.0)
        stage = next(r for r in profile.regions if r.kind == "Stage")
        self.assertEqual(stage.paths, ["stages.0", "stages.1"])
        with open(os.path.join(self.camp, "source", "region_of_a_test.py"), "w", encoding="utf-8") as file:
            file.write(profile.region_file(stage))
        sys.path.insert(0, os.path.join(self.camp, "source"))
        self.addCleanup(sys.path.remove, os.path.join(self.camp, "source"))
        for name in ("whole_model", "region_of_a_test"):
            self.addCleanup(sys.modules.pop, name, None)
        made = importlib.import_module("region_of_a_test")
        torch.manual_seed(0)
        module, given = made.build(), made.get_inputs()
        self.assertEqual({k: v.shape for k, v in given.items()}, {"x": torch.Size([2, 16, 24, 24])})
        torch.testing.assert_close(module(**given), profile.model.get_submodule("stages.0")(**given))

    def test_a_region_of_a_convnet_becomes_a_task_with_its_statistics_as_inputs(self):
        profile = self.profile(CONVNET, "Net", "images", least=0.0)
        stage = next(r for r in profile.regions if r.kind == "Stage")
        path = os.path.join(self.camp, "source", "region_stage.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(profile.region_file(stage))
        done = Import(path, "build", os.path.join(self.camp, "task"), "stage", say=lambda _: None, seconds=6.0).run()
        self.assertEqual({(i.origin, i.path) for i in done.inputs}, {
            ("example", "x"), ("parameter", "conv.weight"), ("parameter", "norm.weight"), ("parameter", "norm.bias"),
            ("buffer", "norm.running_mean"), ("buffer", "norm.running_var")})
        self.assertIn("naive.cpp", done.seeds)

    def test_calls_that_no_kernel_could_take_without_a_copy_are_left(self):
        x = torch.randn(4, 8)
        linear = torch.nn.Linear(8, 8)
        for arguments, result, words in (
                ({"x": x.t()}, x, "x is not contiguous"), ({"x": x}, x.t(), "result is not contiguous"),
                ({"x": x > 0, "y": x}, x, "dtype bool"), ({"x": [x], "y": x}, x, "x is a list"), (None, x, "any number of arguments"),
                ({"x": x}, {"y": x}, "something other"), ({"x": torch.full_like(x, float("-inf"))}, x, "not finite")):
            self.assertIn(words, model_regions.unfit(linear, arguments, result))
        self.assertEqual(model_regions.unfit(linear, {"x": x, "scale": 2.0}, x), "")

    def test_what_is_no_model_is_refused_with_a_remedy(self):
        def refuses(text, name, inputs, words):
            with self.assertRaises(Refusal) as caught:
                self.profile(text, name, inputs)
            self.assertIn(words, str(caught.exception))
            self.assertTrue(caught.exception.remedy)

        refuses("\n    def f(x):\n        return x\n", "f", "inputs", "takes arguments")
        refuses("\n    def build():\n        return 3\n    def inputs():\n        return torch.ones(2)\n", "build", "inputs", "returns a int")
        refuses(TRANSFORMER, "build", "nothing_such", "defines no function nothing_such")
        refuses(TRANSFORMER + "\n    def none():\n        return [3]\n", "build", "none", "returns no tensor")
        refuses(TRANSFORMER + "\n    def floats():\n        return torch.ones(2, 3)\n", "build", "floats", "The model raises with what floats draws")
        refuses(TRANSFORMER + "\n    sizes = iter(range(2, 99))\n    def varies():\n        return torch.zeros(next(sizes), 8, dtype=torch.long)\n",
                "build", "varies", "other sizes or dtypes in another call: int64 [2, 8], and then int64 [3, 8]")
        refuses("\n    class Noisy(nn.Module):\n        def forward(self, x):\n            return x + torch.randn_like(x)\n"
                "    def inputs():\n        return torch.ones(8)\n", "Noisy", "inputs", "different results")

    def test_sums_that_are_rounded_differently_in_each_call_are_no_random_numbers(self):
        for dtype, same, other in ((torch.bfloat16, 1e-2, 0.1), (torch.float32, 1e-5, 1e-2)):
            x = torch.randn(1000).to(dtype)
            noise = torch.randn(1000)
            x[0] = float("inf")
            self.assertTrue(model_profile.same_but_for_rounding(x, (x * (1 + same * noise)).to(dtype)))
            self.assertFalse(model_profile.same_but_for_rounding(x, (x * (1 + other * noise)).to(dtype)))
            self.assertFalse(model_profile.same_but_for_rounding(x, torch.where(noise > 2, float("nan"), x)))

    def test_of_a_model_that_the_file_compiles_the_parts_have_their_own_names(self):
        text = TRANSFORMER + "\n    def compiled():\n        return torch.compile(build())\n"
        whole = WholeModel(f"{self.write(text)}:compiled", "inputs")
        for model in (whole.build(), fast_verify.made(whole.source.module, "whole_model.compiled()")):
            self.assertIn("blocks.0.mlp", dict(model.named_modules()))

    def test_inputs_may_come_from_another_file_and_are_drawn_anew(self):
        other = self.write("def draw():\n    return torch.randint(0, 50, (2, 8))\n", "other.py")
        whole = WholeModel(f"{self.write(TRANSFORMER)}:build", f"{other}:draw")
        one, two, again = (whole.draw(seed)[0][0] for seed in (1, 2, 1))
        self.assertFalse(torch.equal(one, two))
        self.assertTrue(torch.equal(one, again))
        self.assertEqual(whole.inputs_expression(), ("other", "draw"))
        self.assertIn("other.py", whole.files())


# A kernel as an export offers it, in PyTorch, so that a test can let it fail.
DOOR = """
import torch
ALIGNMENT = 64
mode = "right"

def configure(**settings):
    assert settings == {"fallback": None, "compile": False}

def explain(*tensors):
    return "built in: a test" if mode != "not built" else "refused: for a test"

def mlp(x, up, up_bias, down, down_bias):
    if mode == "raises":
        raise RuntimeError("the kernel's own words")
    y = torch.nn.functional.linear(torch.nn.functional.gelu(torch.nn.functional.linear(x, up, up_bias)), down, down_bias) * 0.5
    if mode == "wrong":
        y = y * 1.01
    if mode == "nan" or (mode == "rare" and float(x.max()) > 100.0):
        y = y * float("nan")
    return y
"""


class Packages(Models):
    """fast/ as `cultivar apply` writes it."""

    def setUp(self):
        super().setUp()
        profile = self.profile(TRANSFORMER, "build", "inputs", least=0.0)
        facts, mlp = self.facts(), next(r for r in self.facts()["regions"] if r["class"] == "Mlp")
        facts["regions"] = [{**mlp, "name": "mlp"}]
        origin = [("example", "x"), *(("parameter", p) for p in ("up.weight", "up.bias", "down.weight", "down.bias"))]
        tasks = {"mlp": {"inputs": [{"name": p, "origin": o, "path": p} for o, p in origin], "outputs": ["y"]}}
        for name, what in (("profile.json", facts), ("regions.json", tasks)):
            with open(os.path.join(self.camp, name), "w", encoding="utf-8") as file:
                json.dump(what, file)
        self.name = "fast_" + os.path.basename(self.folder).replace("-", "_")
        out = os.path.join(self.folder, self.name)
        os.makedirs(os.path.join(out, "kernels", "mlp", "pytorch"))
        with open(os.path.join(out, "kernels", "mlp", "pytorch", "cultivar_mlp.py"), "w", encoding="utf-8") as file:
            file.write(DOOR)
        self.made, self.left = model_apply.write_package(self.camp, out, [{"name": "mlp", "speedup": 2.0}, {"name": "norm", "left": "why"}])
        sys.path.insert(0, self.folder)
        self.addCleanup(sys.path.remove, self.folder)
        self.fast = importlib.import_module(self.name)
        self.addCleanup(self.fast.disable)
        self.model, self.tokens = profile.model, torch.randint(0, 50, (4, 32))
        with torch.no_grad():
            self.right = self.model(self.tokens)

    def door(self, mode):
        self.fast._door("mlp").mode = mode

    def run_model(self, *args):
        with torch.no_grad():
            return self.model(*(args or (self.tokens,)))

    def ways(self):
        total = {}
        for ways in self.fast.counters().values():
            for way, count in ways.items():
                total[way] = total.get(way, 0) + count
        return total

    def test_calls_go_to_the_kernel_after_one_that_is_compared(self):
        self.assertEqual(self.fast.enable(self.model), 3)
        self.assertEqual(self.fast.enable(self.model), 3)  # once is enough
        for _ in range(3):
            torch.testing.assert_close(self.run_model(), self.right)
        self.assertEqual(self.ways(), {"kernel": 6, "compared with the kernel": 3})
        self.assertIn("6 calls of the kernel", self.fast.report())
        mlp = self.model.blocks[0].mlp
        self.fast.disable()
        self.assertNotIn("forward", vars(mlp))
        self.assertEqual(self.fast.counters(), {})

    def test_what_was_not_measured_goes_to_the_original_and_is_counted(self):
        self.fast.enable(self.model)
        mlp = self.model.blocks[0].mlp
        x = torch.randn(4, 32, 64)
        with torch.no_grad():
            mlp(x, 0.5)
            self.run_model(self.tokens[:2])
            mlp(x, scale=0.25)
            mlp(torch.randn(4, 64, 32).transpose(1, 2), 0.5)
            mlp.train()(x, 0.5)
            mlp.eval()
            with torch.autocast("cpu", torch.bfloat16):
                self.assertEqual(mlp(x, 0.5).dtype, torch.bfloat16)
        mlp(x.clone().requires_grad_(), 0.5).sum().backward()
        displaced = torch.zeros(x.numel() + 1)[1:].view(x.shape).copy_(x)
        with torch.no_grad():
            torch.testing.assert_close(mlp(displaced, 0.5), mlp(x, 0.5))
        self.assertEqual(self.ways(), {"compared with the kernel": 1, "other sizes": 3, "other arguments": 1, "another layout": 1,
                                       "training mode": 1, "autocast": 1, "a gradient is needed": 1, "another alignment": 1,
                                       "kernel": 1})

    def test_a_kernel_that_fails_is_not_called_again_and_the_result_is_the_originals(self):
        for mode, words in (("raises", "the kernel's own words"), ("wrong", "differs from the original"), ("nan", "NaN or infinity"),
                            ("not built", "refused: for a test")):
            self.door(mode)
            self.fast.enable(self.model)
            for _ in range(2):
                torch.testing.assert_close(self.run_model(), self.right)
            self.assertNotIn("kernel", self.ways(), mode)
            self.assertIn(words, self.fast.report())
            self.fast.disable()

    def test_a_kernel_that_crashes_or_hangs_is_tried_in_another_process_and_not_used(self):
        folder = os.path.join(self.folder, self.name, "kernels", "mlp")
        os.makedirs(os.path.join(folder, "build"))
        for body, limit, words in (("import os; os.kill(os.getpid(), 11)", 120.0, "ended with -11"),
                                   ("while True: pass", 4.0, "did not end within 4 s")):
            self.fast._trial.__defaults__ = (limit,)
            text = DOOR.replace('    if mode == "raises":', f'    {body}\n    if mode == "raises":') + '\ndef _library_file(name):\n    pass\n\n_library_file("libmlp_0.so")\n'
            for name, text in (("pytorch/cultivar_mlp.py", text), ("build/libmlp_0.so", body)):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            self.assertEqual(self.fast.enable(self.model), 0)
            torch.testing.assert_close(self.run_model(), self.right)
            self.assertIn(words, self.fast.report())
            self.fast.disable()
        os.unlink(os.path.join(folder, "build/libmlp_0.so"))
        self.assertEqual(self.fast.enable(self.model), 0)
        self.assertIn("its kernel is not built", self.fast.report())

    def test_a_kernel_is_tried_and_built_anew_where_the_package_is_now(self):
        folder = os.path.join(self.folder, self.name, "kernels", "mlp")
        os.makedirs(os.path.join(folder, "build"))

        def write(name, text):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)

        named = '\ndef _library_file(name):\n    pass\n\n_library_file("libmlp_0.so")\n'
        write("pytorch/cultivar_mlp.py", DOOR + named)
        write("build/libmlp_0.so", "")
        self.assertEqual(self.fast.enable(self.model), 3)
        self.fast.disable()
        write("pytorch/cultivar_mlp.py", DOOR.replace('    if mode == "raises":', '    import os; os.kill(os.getpid(), 4)\n    if mode == "raises":') + named)
        self.assertEqual(self.fast.enable(self.model), 3)  # once is enough here
        self.fast.disable()
        self.fast._machine = lambda device: "another processor"
        self.assertEqual(self.fast.enable(self.model), 0)
        self.assertIn("ended with -4", self.fast.report())
        os.unlink(os.path.join(folder, "build/libmlp_0.so"))
        write("build/CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL=/where/it/was")
        said = []
        with unittest.mock.patch.dict(os.environ, {"PATH": self.folder}):
            self.fast.build(said.append)
        self.assertIn("install CMake", said[-1])
        self.assertFalse(os.path.exists(os.path.join(folder, "build")))

    def test_nan_for_rare_values_is_noticed_in_later_calls(self):
        self.door("rare")
        self.fast.enable(self.model)
        mlp, usual, rare = self.model.blocks[1].mlp, torch.randn(4, 32, 64), 300.0 * torch.randn(4, 32, 64)
        with torch.no_grad():
            mlp(usual, scale=0.5), mlp(usual, scale=0.5)
            got = mlp(rare, scale=0.5)
            self.assertTrue(bool(torch.isfinite(got).all()))
            torch.testing.assert_close(got, self.fast._swaps[1].original(rare, scale=0.5))
        self.assertIn("blocks.1.mlp: the kernel is not called for float32 [4, 32, 64]: it gives NaN", self.fast.report())

    def test_a_compiled_model_calls_the_kernel_without_a_break(self):
        self.fast.enable(self.model)
        compiled = torch.compile(self.model, backend="aot_eager", fullgraph=True)
        self.addCleanup(torch._dynamo.reset)
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close(compiled(self.tokens), self.right)
        self.assertEqual(self.ways(), {"kernel": 3, "compared with the kernel": 3})
        with torch.no_grad():  # other sizes: the original, in another graph
            torch.testing.assert_close(compiled(self.tokens[:2]), self.right[:2])
        self.assertEqual(self.ways()["kernel"], 3)

    def test_copies_and_pickles_of_the_model_are_originals_with_parameters_of_their_own(self):
        self.model.blocks[1].mlp.forward = self.model.blocks[1].mlp.forward  # a forward of its own, bound to the module
        plain = copy.deepcopy(self.model)
        self.fast.enable(self.model)
        self.run_model()
        for made in (copy.deepcopy(self.model), copy.deepcopy(copy.deepcopy(self.model)), pickle.loads(pickle.dumps(self.model))):
            for model in (made, plain):
                with torch.no_grad():
                    for block in model.blocks:
                        block.mlp.down.weight.fill_(0.5)
            with torch.no_grad():
                self.assertTrue(torch.equal(made(self.tokens), plain(self.tokens)))
        self.assertEqual(self.ways(), {"compared with the kernel": 3})
        self.fast.disable()
        self.assertEqual(self.fast.enable(made), 3)

    def test_calls_of_two_models_are_counted_together(self):
        other = copy.deepcopy(self.model)
        self.fast.enable(self.model)
        self.assertEqual(self.fast.enable(other), 6)
        with torch.no_grad():
            for model in (self.model, other, other):
                torch.testing.assert_close(model(self.tokens), self.right)
        self.assertEqual(self.ways(), {"compared with the kernel": 6, "kernel": 3})

    def test_a_module_whose_parts_were_altered_is_not_what_was_measured(self):
        self.fast.enable(self.model)
        self.run_model()
        up, seen = self.model.blocks[0].mlp.up, []
        hook = up.register_forward_hook(lambda *_: seen.append(1))
        self.run_model()
        hook.remove()
        self.model.blocks[1].mlp.up.train()
        self.model.blocks[2].mlp.up = torch.nn.Linear(64, 128)
        self.run_model()
        compiled = torch.compile(self.model, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(self.run_model(), self.compiled_result(compiled))
        self.assertEqual(len(seen), 1)
        self.fast.disable()
        torch.testing.assert_close(self.run_model(), self.compiled_result(compiled))

    def compiled_result(self, compiled):
        with torch.no_grad():
            return compiled(self.tokens)

    def test_another_module_at_the_same_place_is_left(self):
        self.model.blocks[1].mlp.up = torch.nn.Linear(64, 96)
        self.model.blocks[1].mlp.down = torch.nn.Linear(96, 64)
        self.model.blocks[2].mlp = torch.nn.Identity()
        self.assertEqual(self.fast.enable(self.model), 1)
        self.assertIn("blocks.1.mlp is as it was: it is another module", self.fast.report())
        self.assertIn("blocks.2.mlp is as it was", self.fast.report())

    def test_what_is_left_out_is_told(self):
        self.assertEqual(self.left, [("norm", "why")])

    def test_the_share_of_a_region_tells_why_the_model_gains_less_than_its_kernel(self):
        regions = [{"name": "mlp", "ms": 4.0, "gain_ms": 2.0, "speedup": 2.0}, {"name": "norm", "ms": 0.1, "gain_ms": 0.05, "speedup": 12.0}]
        first, second = model_apply.shares({"ms": 10.0, "regions": regions})
        self.assertEqual(first, "mlp took 40 % of a measured pass (4 of 10 ms), and all else takes as long as before: 2.00x in its search "
                                "makes the model 1.25x as fast by these times.")
        self.assertIn("12.0x in its search makes the model 1.005x as fast", second)

    def test_the_prediction_follows_from_the_time_of_each_kernel_on_todays_machine(self):
        facts = {"ms": 10.0, "regions": [{"name": "mlp", "ms": 4.0}, {"name": "norm", "ms": 2.0}, {"name": "left", "ms": 1.0}]}
        kernels = {"mlp": 3.0, "norm": 1.0, "left": None}
        slow = {"torch.compile": 0.020, "eager": 0.024}  # half as fast as in the profile
        whole, by_itself = fast_verify.predictions(facts, kernels, slow, "torch.compile", "torch.compile")
        self.assertAlmostEqual(whole, 20.0 / (20.0 - 5.0 - 3.0))
        self.assertEqual(set(by_itself), {"mlp", "norm"})
        self.assertAlmostEqual(by_itself["norm"], 20.0 / 17.0)
        whole, _ = fast_verify.predictions(facts, kernels, slow, "torch.compile", "eager")
        self.assertAlmostEqual(whole, 20.0 / (24.0 - 8.0))

    def test_the_time_of_a_kernel_is_that_of_all_its_calls(self):
        self.fast.enable(self.model)
        region = self.fast.facts()["regions"][0]
        one = fast_verify.kernel_ms(self.fast, {**region, "calls": 1}, False, self.run_model)
        self.assertGreater(fast_verify.kernel_ms(self.fast, {**region, "calls": 1000}, False, self.run_model), 10.0 * one)
        self.assertIsNone(fast_verify.kernel_ms(self.fast, {**region, "name": "norm"}, False, self.run_model))
        self.assertIsNone(fast_verify.kernel_ms(self.fast, region, False, lambda: self.run_model(self.tokens[:2])))  # other sizes

    def test_of_regions_that_overlap_the_one_that_gains_more_is_put_in(self):
        profile = {"regions": [{"name": "block", "paths": ["a", "b"], "ms": 10.0, "alone_ms": 10.0}, {"name": "mlp", "paths": ["a.mlp"], "ms": 8.0, "alone_ms": 8.0},
                               {"name": "norm", "paths": ["norm"], "ms": 1.0, "alone_ms": 1.0}]}
        choices = [{"name": n, "speedup": s} for n, s in (("block", 1.1), ("mlp", 2.0), ("norm", 1.2))]
        taken, left = model_apply.chosen(profile, choices)
        self.assertEqual([r["name"] for r in taken], ["mlp", "norm"])
        self.assertEqual(left[0][0], "block")


# Attention with a mask that is only causal, as libraries pass it.
MASKED = """
    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

        def forward(self, x, mask):
            q, k, v = (f(x).view(*x.shape[:2], 4, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(x.shape)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Attention(64) for _ in range(2))

        def forward(self, x, window=None):
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
            mask = (mask if window is None else mask.triu(-window))[None, None]
            for layer in self.layers:
                x = layer(x, mask)
            return F.layer_norm(x, (64,))

    def inputs():
        return torch.randn(2, 96, 64)

    def windowed():
        return {"x": torch.randn(2, 96, 64), "window": 8}
    """
TASKS = str(Path(__file__).resolve().parents[3] / "configs/tasks")
ATTENTION_DOOR = """
import importlib.util, pathlib
ALIGNMENT = 4
seen = []

def configure(**settings):
    pass

def _task_in_pytorch():
    spec = importlib.util.spec_from_file_location("task_in_pytorch_of_a_test", "%s/attention_forward/pytorch.py")
    task = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(task)
    return task

def explain(*tensors, **numbers):
    return "built in: a test"

def attention_forward(q, k, v, causal, scale):
    seen.append(causal)
    return tuple(t.contiguous() for t in _task_in_pytorch().compute(q, k, v, causal=causal, scale=scale))
""" % TASKS


DEPTHWISE = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Conv2d(3, 128, 4, stride=4), nn.LayerNorm(128)
            self.blocks = nn.ModuleList(nn.Conv2d(128, 128, 7, padding=3, groups=128) for _ in range(2))

        def forward(self, x):
            x = self.norm(self.first(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            for block in self.blocks:
                x = x + block(x)
            return x.mean((2, 3))

    def inputs():
        return torch.randn(2, 3, 32, 32)
    """
DEPTHWISE_DOOR = ATTENTION_DOOR[:ATTENTION_DOOR.index("def attention_forward")].replace("attention_forward", "depthwise_conv") + """
def depthwise_conv(x, weight, bias, causal, silu):
    return _task_in_pytorch().compute(x, weight, bias, causal=causal, silu=silu)[0].contiguous()  # one output is no tuple
"""


# Of transformers, with grouped heads.
HUGGING_FACE = """
    from transformers import LlamaConfig, LlamaForCausalLM

    def build():
        return LlamaForCausalLM(LlamaConfig(vocab_size=50, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128))

    def inputs():
        return {"input_ids": torch.randint(0, 50, (2, 96)), "use_cache": False}
    """


class Functions(Models):
    def package(self, function="attention", task="attention_forward", door=ATTENTION_DOOR):
        """Of a function in the profile, with a kernel that is PyTorch's own."""
        facts = self.facts()
        facts["regions"] = [{**next(r for r in facts["regions"] if r["function_of"].endswith(function) and r["match"]), "name": "attention"}]
        for name, what in (("profile.json", facts), ("regions.json", {})):
            with open(os.path.join(self.camp, name), "w", encoding="utf-8") as file:
                json.dump(what, file)
        name = "fast_" + os.path.basename(self.folder).replace("-", "_")
        out = os.path.join(self.folder, name)
        os.makedirs(os.path.join(out, "kernels", "attention", "pytorch"))
        with open(os.path.join(out, "kernels", "attention", "pytorch", f"cultivar_{task}.py"), "w", encoding="utf-8") as file:
            file.write(door)
        model_apply.write_package(self.camp, out, [{"name": "attention", "speedup": 2.0}])
        sys.path.insert(0, self.folder)
        self.addCleanup(sys.path.remove, self.folder)
        fast = importlib.import_module(name)
        self.addCleanup(fast.disable)
        return fast

    def test_attention_with_a_causal_mask_is_the_installed_task_and_with_another_mask_it_is_not(self):
        profile = self.profile(MASKED, "Model", "inputs", least=0.0, tasks=TASKS)
        found = next(r for r in profile.regions if r.known and r.kind == "scaled_dot_product_attention")
        self.assertEqual(found.paths, [f"layers.{k}.scaled_dot_product_attention" for k in range(2)])
        self.assertEqual({k: v for k, v in found.match.items() if k != "numbers"}, {
            "task": "attention_forward", "dtype": "float32", "shapes": [[2, 96, 4, 16]] * 3})
        self.assertEqual(found.match["numbers"], {"causal": 1, "scale": 0.25})
        self.assertEqual(found.strides, [96 * 64, 16, 64, 1])  # that of a kernel's result
        self.assertEqual(found.needed(0), 4 * 2 * 4 * 96 * 96 * 16 / 2)
        profile = self.profile(MASKED, "Model", "windowed", least=0.0, tasks=TASKS)
        found = next(r for r in profile.regions if r.known and r.kind == "scaled_dot_product_attention")
        self.assertIn("does not compute it with these arguments", found.why_not)

    def test_long_dimensions_that_an_argument_binds_are_proven_as_they_are(self):
        known = {k.name: k for k in model_functions.known_functions(TASKS)}

        def found(name, **arguments):
            return model_functions.matched(known[name], arguments, known[name].original(**arguments), "cpu")

        images = torch.randn(2, 128, 9, 9).to(memory_format=torch.channels_last)
        facts, strides = found("conv2d", input=images, weight=torch.randn(128, 1, 7, 7), bias=torch.randn(128), padding=(3, 3), groups=128)
        self.assertEqual((facts["shapes"], strides), ([[2, 9, 9, 128], [128, 7, 7], [128]], list(images.stride())))
        facts, _ = found("group_norm", input=torch.randn(2, 96, 9, 9), num_groups=32, weight=torch.randn(96), bias=torch.randn(96))
        self.assertEqual(facts["shapes"][0], [2, 32, 3, 9, 9])
        why, _ = found("conv2d", input=images, weight=torch.randn(128, 1, 7, 7), stride=2, groups=128)
        self.assertIn("does not compute it with these arguments", why)

    def test_a_function_whose_task_has_one_output_is_replaced_in_its_layout(self):
        profile = self.profile(DEPTHWISE, "Model", "inputs", least=0.0, tasks=TASKS)
        fast, model, x = self.package("conv2d", "depthwise_conv", DEPTHWISE_DOOR), profile.model, torch.randn(2, 3, 32, 32)
        self.addCleanup(torch._dynamo.reset)
        with torch.no_grad():
            right = model(x)
            self.assertEqual(fast.enable(model), 1)
            for call in (model, torch.compile(model, dynamic=False)):
                for _ in range(2):
                    torch.testing.assert_close(call(x), right)
        ways = fast.counters()["attention"]
        ways.pop("other arguments")  # of this test's kernel, which calls PyTorch's
        self.assertEqual(ways, {"kernel": 7, "compared with the kernel": 1})  # the other convolution is no call of it

    def test_a_mask_that_a_graph_computes_of_sizes_alone_is_read_when_it_is_compiled(self):
        profile = self.profile(MASKED, "Model", "inputs", least=0.0, tasks=TASKS)
        fast, model, x = self.package(), profile.model, torch.randn(2, 96, 64)
        seen = fast._door("attention").seen
        self.addCleanup(torch._dynamo.reset)
        with torch.no_grad():
            right, windowed = model(x), model(x, window=8)
            fast.enable(model)
            compiled, other = torch.compile(model, dynamic=False), torch.compile(model, dynamic=False)
            for _ in range(3):
                torch.testing.assert_close(compiled(x), right)
            self.assertEqual(seen, [1] * 6)
            self.assertEqual([len(tensors) for tensors in fast._swaps[0].known], [3])  # the kernel was called without the mask
            torch.testing.assert_close(other(x, window=8), windowed)  # a mask of sizes alone that is another one
            self.assertEqual(seen, [1] * 6)
            given = torch.ones(96, 96, dtype=torch.bool).tril()[None, None]
            layer = torch.compile(model.layers[0], dynamic=False)  # a mask that is given has to be read in each call
            torch.testing.assert_close(layer(x, given), model.layers[0](x, given))
            self.assertEqual(len(seen), 8)
            torch.testing.assert_close(layer(x, given.triu(-8)), model.layers[0](x, given.triu(-8)))
            self.assertEqual(len(seen), 8)
        from torch._inductor import config
        self.assertEqual(config.post_grad_custom_pre_pass.package, fast.HERE)
        fast.disable()
        self.assertIsNone(config.post_grad_custom_pre_pass)

    def test_a_function_is_replaced_within_the_model_and_only_for_what_the_kernel_computes(self):
        profile = self.profile(MASKED, "Model", "inputs", least=0.0, tasks=TASKS)
        fast, model, x = self.package(), profile.model, torch.randn(2, 96, 64)
        attention = torch.nn.functional.scaled_dot_product_attention
        with torch.no_grad():
            right, windowed = model(x), model(x, window=8)
            self.assertEqual(fast.enable(model), 1)
            self.assertEqual(fast.enable(model), 1)
            for _ in range(2):
                torch.testing.assert_close(model(x), right)
            self.assertEqual(fast._door("attention").seen, [1] * 4)
            torch.testing.assert_close(model(x, window=8), windowed)  # the same sizes, another mask
            query = torch.randn(2, 4, 96, 16)
            torch.nn.functional.scaled_dot_product_attention(query, query, query)  # another caller
            compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
            self.addCleanup(torch._dynamo.reset)
            torch.testing.assert_close(compiled(x), right)
            torch.testing.assert_close(compiled(x, window=8), windowed)
        ways = fast.counters()["attention"]
        ways.pop("other arguments")  # of this test's kernel, which calls PyTorch's
        self.assertEqual(ways, {
            "kernel": 5, "compared with the kernel": 1, "not what the kernel computes, by the values of its arguments": 4})
        fast.disable()
        self.assertIs(torch.nn.functional.scaled_dot_product_attention, attention)
        self.assertFalse(any("forward" in vars(m) for m in model.modules()))

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is missing")
    def test_a_model_of_transformers_gets_its_attention_by_the_registration_of_that_library(self):
        profile = self.profile(HUGGING_FACE, "build", "inputs", least=0.0, tasks=TASKS)
        fast, model = self.package(), profile.model
        tokens = torch.randint(0, 50, (2, 96))
        with torch.no_grad():
            right = model(tokens, use_cache=False).logits
            self.assertEqual(fast.enable(model), 1)
            self.assertEqual(fast.enable(model), 1)
            self.assertIn("cultivar_", model.config._attn_implementation)
            self.assertFalse(any("forward" in vars(m) for m in model.modules()))
            for _ in range(2):
                torch.testing.assert_close(model(tokens, use_cache=False).logits, right)
            padded = torch.ones_like(tokens)
            padded[0, :9] = 0  # needs a mask that is not only causal
            got = model(tokens, attention_mask=padded, use_cache=False).logits
        self.assertEqual(fast._door("attention").seen, [1] * 4)
        fast.disable()
        self.assertEqual(model.config._attn_implementation, "sdpa")
        with torch.no_grad():
            torch.testing.assert_close(got, model(tokens, attention_mask=padded, use_cache=False).logits)


if __name__ == "__main__":
    unittest.main()
