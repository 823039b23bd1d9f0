// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 120 s, engine/import, engine/export, engine/suite
// Problems of KernelBench become a suite; its table has fast_p, and the export of a kernel is a ModelNew that
// KernelBench's evaluator takes. Its loading and comparison are repeated here, because it needs a GPU.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/pytorch.hpp"

using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const char* const kScaled = R"(import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features: int, slope: float):
        super(Model, self).__init__()
        self.layers = nn.Sequential(nn.Linear(features, 24), nn.LeakyReLU(slope))

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return self.layers(x).index_select(0, index)


batch_size = 48
features = 40


def get_inputs():
    return [torch.rand(batch_size, features), torch.randint(0, batch_size, (17,))]


def get_init_inputs():
    return [features, 0.1]
)";

const char* const kConstant = R"(import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 0 + 1


def get_inputs():
    return [torch.rand(16, 16)]


def get_init_inputs():
    return []
)";

// As load_original_model_and_inputs, load_custom_model and run_and_check_correctness of
// src/kernelbench/eval.py (423217d) do it, without a GPU: both texts are executed in one namespace, both
// models are built from the same seed, and every tensor is passed as f32.
const char* const kEvaluator = R"(import sys

import torch

original, custom = (open(name, encoding="utf-8").read() for name in sys.argv[1:3])
context = {}
exec(original, context)
Model, get_init_inputs, get_inputs = (context[name] for name in ("Model", "get_init_inputs", "get_inputs"))
compile(custom, "<string>", "exec")
exec(custom, context)
ModelNew = context["ModelNew"]
torch.manual_seed(42)
given = get_init_inputs()
torch.manual_seed(42)
model = Model(*given)
torch.manual_seed(42)
model_new = ModelNew(*given).to(dtype=torch.float32)
assert {k: v.tolist() for k, v in model.state_dict().items()} == {k: v.tolist() for k, v in model_new.state_dict().items()}
for seed in (1, 2, 3):
    torch.manual_seed(seed)
    inputs = get_inputs()
    with torch.no_grad():
        right = model(*inputs)
    made = model_new(*[x.to(dtype=torch.float32) for x in inputs])  # with gradients enabled, as when it is timed
    assert made.shape == right.shape and torch.allclose(right, made, atol=1e-4, rtol=1e-4), (right - made).abs().max()
try:
    model_new(torch.rand(3), torch.zeros(1))
except ValueError as error:
    print("refused:", error)
print("accepted")
)";

}  // namespace

BOOST_AUTO_TEST_SUITE(kernelbench, *boost::unit_test::precondition(pytorch_2_is_here))

BOOST_AUTO_TEST_CASE(problems_become_a_suite_whose_kernels_are_exported_as_model_new) {
  const TemporaryFolder folder;
  const std::string level = "bench/KernelBench/level2/";
  fs::create_directories(folder / level);
  write_text(folder / (level + "7_Scaled_rows.py"), kScaled);
  write_text(folder / (level + "8_Constant.py"), kConstant);
  const auto imported =
      cultivar_in(folder.path(), {"import", "--kernelbench", "bench", "--level", "2", "--out", "l2",
                                  "--budget", "15m", "--python", python_with_torch_2()});
  BOOST_TEST_REQUIRE(imported.exit == 0, imported.err);
  BOOST_TEST(contains(imported.out, "2 problems, 1 tasks, 1 refused"), imported.out);
  const auto checked = cultivar_in(folder.path(), {"suite", "l2/gpu_suite.yaml", "--check"});
  BOOST_TEST(checked.exit == 0, checked.err);
  BOOST_TEST(contains(checked.out, "workloads example, 15 min"), checked.out);

  const auto searched = cultivar_in(
      folder.path(), {"suite", "l2/cpu_suite.yaml", "--set", "budget.evaluations=1", "--set",
                      "contenders=[torch_eager]", "--turn", "10m", "--run-dir", "runs", "--json"});
  BOOST_TEST_REQUIRE(searched.exit == 0, searched.err);
  const auto told = facts(searched);
  BOOST_TEST(told["fast_p"]["problems"] == 2);
  BOOST_TEST(contains(told["fast_p"]["refused"]["l2_8_constant"].get<std::string>(), "constant"));
  BOOST_TEST(told["fast_p"]["contenders"]["torch_eager"][0]["by_lower_bound"] == 1);
  BOOST_TEST(told["tasks"][0]["best"]["rivals"]["torch_eager"]["interval"].size() == 2U);
  BOOST_TEST(contains(read_text(folder / "runs/table.md"), "| 0 | 1 of 2 (0.50) | 1 of 2 (0.50) |"));

  const fs::path exported = folder / "runs/l2_7_scaled_rows/best/pytorch/model_new.py";
  BOOST_TEST_REQUIRE(fs::exists(exported));
  // The bundle's own verifier, whose oracle is the PyTorch program.
  const auto verified = run_command(
      {"sh", "-c",
       "cd runs/l2_7_scaled_rows/best && cmake -S . -B build && cmake --build build && build/verify"},
      {.folder = folder.path(), .deadline_s = 500.0});
  BOOST_TEST(verified.exit == 0, verified.out << verified.err);
  BOOST_TEST(contains(verified.out, "verified: every checked row is within the task's bound"), verified.out);

  write_text(folder / "evaluator.py", kEvaluator);
  const auto evaluate = [&] {
    return run_command({python_with_torch_2(), "evaluator.py", level + "7_Scaled_rows.py", exported.string()},
                       {.folder = folder.path(),
                        .environment = {{"TORCH_EXTENSIONS_DIR", (folder / "extensions").string()}},
                        .deadline_s = 200.0});
  };
  for (int time = 0; time < 2; ++time) {  // built, and found again
    const auto accepted = evaluate();
    BOOST_TEST(accepted.exit == 0, accepted.err);
    BOOST_TEST(contains(accepted.out, "accepted"), accepted.out);
    BOOST_TEST(contains(accepted.out, "refused: "), accepted.out);
  }
}

BOOST_AUTO_TEST_SUITE_END()
