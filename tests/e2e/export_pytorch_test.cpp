// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 140 s, engine/export
// An export as a PyTorch operator: the bundle's own test passes, and fails if the kernel is wrong. Skipped if
// no Python has PyTorch (Debian 12: apt-get install --no-install-recommends python3-torch).
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/places.hpp"
#include "support/pytorch.hpp"

namespace fs = std::filesystem;
namespace utf = boost::unit_test;
using namespace cultivar::testing;

namespace {

struct Desk {
  TemporaryFolder folder;
  CommandResult run(std::vector<std::string> arguments) {
    return cultivar_in(folder.path(), std::move(arguments));
  }
  void build(const std::string& bundle) {
    const auto made = run_command(
        {"sh", "-c", "cmake -S " + bundle + " -B " + bundle + "/build && cmake --build " + bundle + "/build"},
        {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
    BOOST_TEST_INFO(made.out + made.err);
    BOOST_TEST_REQUIRE(made.exit == 0);
  }
  CommandResult script(const std::string& file) {
    return run_command({python_with_torch(), (folder / file).string()},
                       {.folder = "/", .environment = {}, .deadline_s = 240.0});
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(export_pytorch, Desk, *utf::precondition(pytorch_is_here))

BOOST_AUTO_TEST_CASE(exported_attention_is_as_right_as_pytorchs_own_and_three_lines_call_it) {
  copy_task("attention_forward", folder / "attention",
            "      - {B: 1, H: 16, S_q: 1024, D: 64}\n"
            "      - {B: 1, H: 32, H_kv: 8, S_q: 1024, D: 64, causal: 1}\n");
  std::string kernel = read_text(folder / "attention/seeds/vectorised.cpp");
  const std::string claim = "requires: \"dtype == f32";
  kernel.insert(kernel.find(claim) + claim.size(), " && D <= 128");  // so that there is something to refuse
  write_text(folder / "attention/seeds/vectorised.cpp", kernel);
  write_text(folder / "search.yaml",
             "name: attention\ntask: ./attention\ntarget: cpu\nworkloads: cpu_quick\nseeds: [vectorised]\n"
             "budget: {evaluations: 1, wall: 15m}\n"
             "evaluation: {screening_samples: 3, max_samples: 4, max_seconds: 1s}\n");
  const auto search = run({"run", "search.yaml"});
  BOOST_TEST_INFO(search.err);
  BOOST_TEST_REQUIRE(search.exit == 0);
  BOOST_TEST_REQUIRE(run({"export", "attention", "--out", "bundle"}).exit == 0);
  const auto early = script("bundle/pytorch/test_cultivar_attention_forward.py");
  BOOST_TEST(early.exit == 1);
  BOOST_TEST(contains(early.err, "build it first"), early.err);
  build("bundle");

  const auto tested = script("bundle/pytorch/test_cultivar_attention_forward.py");
  BOOST_TEST_INFO(tested.out + tested.err);
  BOOST_TEST(tested.exit == 0);
  for (const char* line :
       {"\npassed: ", "ok      B=1 H=2 H_kv=1 S_q=193 S_kv=127 D=64 causal=1", "RMS errors: o ",
        "\nok      refuses B=", "ok      refuses another dtype", "ok      refuses inconsistent shapes",
        "ok      inputs that are not contiguous", "ok      unaligned inputs",
        "ok      omitted parameters have their defaults", "ok      meta tensors have the outputs' shapes",
        "ok      a call like an earlier one is direct", "ok      modes and transformations see the call",
        "ok      a fault of the direct way", "ok      reloaded",
        "ok      together with another copy of the module"})
    BOOST_TEST(contains(tested.out, line), line);
  BOOST_TEST(!contains(tested.out, "FAILED"));

  const auto timed =
      run_command({python_with_torch(), (source_folder() / "experiments/host_time/host_time.py").string(),
                   (folder / "bundle").string(), "D=64"},
                  {.folder = "/", .environment = {}, .deadline_s = 240.0});
  BOOST_TEST(timed.exit == 0, timed.out << timed.err);
  BOOST_TEST(contains(timed.out, "the call with inputs that require gradients"), timed.out);
  const auto misshapen =
      run_command({python_with_torch(), (source_folder() / "experiments/host_time/host_time.py").string(),
                   (folder / "bundle").string(), "D=-1"},
                  {.folder = "/", .environment = {}, .deadline_s = 240.0});
  BOOST_TEST(misshapen.exit == 1);
  BOOST_TEST(misshapen.err.starts_with("host_time.py: "), misshapen.err);

  write_text(folder / "three.py", "import sys; sys.path.insert(0, '" + (folder / "bundle/pytorch").string() +
                                      "')\nimport torch\n"
                                      "from cultivar_attention_forward import attention_forward\n"
                                      "q = torch.randn(2, 70, 4, 64)\nk, v = torch.randn(2, 2, 90, 2, 64)\n"
                                      "o, lse = attention_forward(q, k, v, causal=True)\n"
                                      "print(tuple(o.shape), tuple(lse.shape), o.dtype)\n"
                                      "attention_forward(q, k, v, scale=torch.pi, causal='yes')\n");
  const auto called = script("three.py");
  BOOST_TEST(called.out == "(2, 70, 4, 64) (2, 4, 70) torch.float32\n");
  BOOST_TEST(contains(called.err, "causal"), called.err);  // PyTorch's own words for a wrong argument
}

BOOST_AUTO_TEST_CASE(a_wrong_kernel_of_a_users_own_task_fails_the_bundles_test) {
  write_own_task(folder.path(), "{evaluations: 2, wall: 15m}");
  write_text(folder / "rms_norm/pytorch.py",
             "def compute(x, *, eps):\n"
             "    return (x / (x.square().mean(1, keepdim=True) + eps).sqrt(),)\n");
  BOOST_TEST_REQUIRE(run({"run", "search.yaml"}).exit == 0);
  BOOST_TEST_REQUIRE(run({"export", "own", "--out", "bundle"}).exit == 0);
  BOOST_TEST(read_text(folder / "bundle/pytorch/task_in_pytorch.py") ==
             read_text(folder / "rms_norm/pytorch.py"));
  build("bundle");
  const auto right = script("bundle/pytorch/test_cultivar_rms_norm.py");
  BOOST_TEST_INFO(right.out + right.err);
  BOOST_TEST(right.exit == 0);
  BOOST_TEST(contains(right.out, "RMS errors: y "), right.out);

  // The run's other kernel, in the same process.
  const int best = nlohmann::json::parse(read_text(folder / "bundle/bundle.json"))["individual"].get<int>();
  BOOST_TEST_REQUIRE(run({"export", "own", "--id", best == 1 ? "2" : "1", "--out", "other"}).exit == 0);
  build("other");
  write_text(folder / "both.py", R"(import importlib.util, pathlib, torch
def load(name):
    file = pathlib.Path(__file__).parent / name / "pytorch" / "cultivar_rms_norm.py"
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
one, two = load("bundle"), load("other")
assert one._operator is not two._operator
x = torch.randn(70, 300)
for module in (one, two, one):
    print(torch.allclose(module.rms_norm(x), x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt(), atol=1e-5))
)");
  const auto both = script("both.py");
  BOOST_TEST(both.out == "True\nTrue\nTrue\n", both.err);

  std::string source = read_text(folder / "bundle/kernel.cpp");
  const std::size_t at = source.find("* scale");
  BOOST_TEST_REQUIRE(at != std::string::npos);
  write_text(folder / "bundle/kernel.cpp", source.replace(at, 7, "* scale * 1.001f"));
  build("bundle");
  const auto wrong = script("bundle/pytorch/test_cultivar_rms_norm.py");
  BOOST_TEST(wrong.exit == 1);
  BOOST_TEST(contains(wrong.out, "times the task's bound"), wrong.out);
  BOOST_TEST(contains(wrong.out, "the RMS error of y"), wrong.out);
  BOOST_TEST(contains(wrong.err, "FAILED: "), wrong.err);
}

BOOST_AUTO_TEST_CASE(an_export_of_a_task_whose_reference_allows_no_rounding) {
  write_text(folder / "search.yaml",
             "name: turned\ntask: transpose\ntarget: cpu\nworkloads: cpu_quick\nseeds: [naive]\n"
             "budget: {evaluations: 1, wall: 15m}\n"
             "evaluation: {screening_samples: 3, max_samples: 4, max_seconds: 1s}\n");
  BOOST_TEST_REQUIRE(run({"run", "search.yaml"}).exit == 0);
  BOOST_TEST_REQUIRE(run({"export", "turned", "--out", "bundle"}).exit == 0);
  build("bundle");
  const auto tested = script("bundle/pytorch/test_cultivar_transpose.py");
  BOOST_TEST_INFO(tested.out + tested.err);
  BOOST_TEST(tested.exit == 0);
  BOOST_TEST(contains(tested.out, "\npassed: "));
}

BOOST_AUTO_TEST_SUITE_END()
