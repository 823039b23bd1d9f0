// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 110 s, engine/export
// Two exports make a differentiable operator: attention and its gradients agree with PyTorch's autograd.
// Skipped if no Python has PyTorch (Debian 12: apt-get install --no-install-recommends python3-torch).
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/pytorch.hpp"

namespace fs = std::filesystem;
namespace utf = boost::unit_test;
using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(export_autograd, *utf::precondition(pytorch_is_here))

BOOST_AUTO_TEST_CASE(a_forward_and_a_backward_bundle_train) {
  const TemporaryFolder folder;
  const auto run = [&](std::vector<std::string> arguments) {
    const auto result = cultivar_in(folder.path(), std::move(arguments));
    BOOST_TEST_INFO(result.out + result.err);
    BOOST_TEST_REQUIRE(result.exit == 0);
  };
  for (const std::string task : {"attention_forward", "attention_backward"}) {
    copy_task(task, folder / task, "      - {B: 1, H: 4, H_kv: 2, S_q: 1280, D: 64, causal: 1}\n");
    write_text(folder / (task + ".yaml"),
               "name: " + task + "\ntask: ./" + task +
                   "\ntarget: cpu\nworkloads: cpu_quick\nseeds: [vectorised]\n" +
                   "budget: {evaluations: 1, wall: 15m}\n" +
                   "evaluation: {screening_samples: 3, max_samples: 4, max_seconds: 1s}\n");
    run({"run", task + ".yaml"});
    run({"export", task, "--out", "bundle_" + task});
    const std::string bundle = "bundle_" + task;
    const auto made = run_command(
        {"sh", "-c", "cmake -S " + bundle + " -B " + bundle + "/build && cmake --build " + bundle + "/build"},
        {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
    BOOST_TEST_INFO(made.out + made.err);
    BOOST_TEST_REQUIRE(made.exit == 0);
  }
  const auto script = [&](const fs::path& file) {
    return run_command({python_with_torch(), file.string()},
                       {.folder = "/", .environment = {}, .deadline_s = 240.0});
  };
  // The bundle's own test draws the derived inputs.
  const auto tested =
      script(folder / "bundle_attention_backward/pytorch/test_cultivar_attention_backward.py");
  BOOST_TEST(tested.exit == 0, tested.out << tested.err);
  BOOST_TEST(contains(tested.out, "\npassed: "), tested.out);

  write_text(folder / "train.py", R"(import pathlib, sys, torch
here = pathlib.Path(__file__).parent
for task in ("attention_forward", "attention_backward"):
    sys.path.insert(0, str(here / ("bundle_" + task) / "pytorch"))
import cultivar_attention_forward as forward, cultivar_attention_backward as backward
q = torch.randn(2, 70, 4, 64, requires_grad=True)
k, v = (torch.randn(2, 90, 2, 64, requires_grad=True) for _ in range(2))
try:
    forward.attention_forward(q, k, v)
except RuntimeError as error:
    print("register_backward" in str(error))
try:
    backward.register_backward(forward)
except ValueError as error:
    print("gradient" in str(error))
forward.register_backward(backward)
worst = 0.0
for numbers in ({}, {"causal": True}, {"causal": True, "scale": 0.3}):
    o, lse = forward.attention_forward(q, k, v, **numbers)
    assert o.requires_grad and not lse.requires_grad
    logits = torch.einsum("bihd,bjhd->bhij", q, k.repeat_interleave(2, 2)) * numbers.get("scale", 64 ** -0.5)
    if numbers.get("causal"):
        logits = logits.masked_fill(~torch.ones(70, 90, dtype=torch.bool).tril(20), float("-inf"))
    usual = torch.einsum("bhij,bjhd->bihd", torch.softmax(logits, -1), v.repeat_interleave(2, 2))
    grad = torch.randn_like(o)
    for ours, theirs in zip(torch.autograd.grad(o, (q, k, v), grad), torch.autograd.grad(usual, (q, k, v), grad)):
        worst = max(worst, float((ours - theirs).abs().max() / theirs.abs().max()))
print(worst < 1e-5)
def total(operator):
    return lambda q: operator(q, k.detach(), v.detach(), causal=True)[0].square().sum()
usual = torch.autograd.grad(total(forward.attention_forward)(q), q)[0]
for operator in (forward.attention_forward, forward._operator):
    print(torch.allclose(torch.func.grad(total(operator))(q.detach()), usual, rtol=1e-5, atol=1e-6))
try:
    torch.func.jvp(total(forward._operator), (q.detach(),), (torch.ones_like(q),))
except RuntimeError as error:
    print("forward mode" in str(error))
try:
    forward.attention_forward(q, k, v, window=16)
except ValueError as error:
    print("does not know window" in str(error))
with torch.no_grad():
    print(not forward.attention_forward(q, k, v)[0].requires_grad)
)");
  const auto trained = script(folder / "train.py");
  BOOST_TEST(trained.out == "True\nTrue\nTrue\nTrue\nTrue\nTrue\nTrue\nTrue\n", trained.out << trained.err);
}

BOOST_AUTO_TEST_SUITE_END()
