// SPDX-License-Identifier: Apache-2.0
// A PyTorch file becomes a task that runs, or is refused with the reason.
// long: 120 s, engine/import, engine/cli, evaluators/references
#include <unistd.h>

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/pytorch.hpp"
#include "support/triton_kernels.hpp"

using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

struct Files {
  fs::path folder = fs::temp_directory_path() / ("cultivar-import-" + std::to_string(::getpid()));
  Files() { fs::create_directories(folder); }
  ~Files() { fs::remove_all(folder); }

  CommandResult import(const std::string& source, const std::string& out,
                       std::vector<std::string> more = {}) {
    std::ofstream(folder / "model.py") << source;
    std::vector<std::string> arguments{"import", "model.py", "--out", out, "--python", python_with_torch_2()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cultivar_in(folder, arguments);
  }
};

const char* const kModule = R"(import torch
import torch.nn as nn


class ScaledSwish(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        y = torch.layer_norm(x, x.shape[-1:]) * self.scale
        return y * torch.sigmoid(y)


def example_inputs():
    return [torch.randn(64, 48)]
)";

}  // namespace

BOOST_FIXTURE_TEST_SUITE(import, Files, *boost::unit_test::precondition(pytorch_2_is_here))

BOOST_AUTO_TEST_CASE(a_module_becomes_a_task_whose_seed_passes) {
  const CommandResult made = import(kModule, "swish");
  BOOST_REQUIRE_MESSAGE(made.exit == 0, made.err);
  for (const char* file :
       {"task.yaml", "reference.py", "seeds/naive.cpp", "seeds/cuda_naive.cu", "search.yaml"})
    BOOST_TEST(fs::exists(folder / "swish" / file), file);
  BOOST_TEST(contains(made.out, "swish"));
  const auto right = cultivar_in(folder, {"evaluate", "./swish", "swish/seeds/naive.cpp", "--stop-after",
                                          "edge", "--python", python_with_torch_2(), "--json"});
  BOOST_TEST(right.exit == 0, right.out << right.err);
  // A kernel with a mistake that its author could make is refused.
  std::ifstream in(folder / "swish/seeds/naive.cpp");
  std::string text(std::istreambuf_iterator<char>(in), {});
  const std::size_t at = text.find("1.0e-05");
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, text);
  text.replace(at, 7, "1.0e-01");
  std::ofstream(folder / "wrong.cpp") << text;
  const auto wrong = cultivar_in(folder, {"evaluate", "./swish", "wrong.cpp", "--stop-after", "edge",
                                          "--python", python_with_torch_2(), "--json"});
  BOOST_TEST(facts(wrong)[0]["verdict"] == "rejected", wrong.out);
}

// Generated and compiled without a GPU.
BOOST_AUTO_TEST_CASE(kernels_that_torch_compile_generates_become_seeds_that_pass_the_screen,
                     *cultivar::triton_test::needs_triton()) {
  const CommandResult made = import(kModule, "swish");
  BOOST_REQUIRE_MESSAGE(made.exit == 0, made.err);
  for (const char* seed : {"triton_inductor", "triton_inductor_rows"}) {
    const auto judged = cultivar_in(
        folder, {"evaluate", "./swish", fmt::format("swish/seeds/{}.py", seed), "--target", "cuda", "--arch",
                 "sm_90a", "--stop-after", "screen", "--python", python_with_torch_2(), "--json"});
    BOOST_TEST(judged.exit == 0, judged.out << judged.err);
    BOOST_TEST(!contains(facts(judged)[0].dump(), "rejected"), judged.out);
  }
  // A product of matrices is a call of a library.
  const CommandResult product = import(
      "import torch\n\n\ndef f(x, w):\n    return torch.relu(x @ w)\n\n\n"
      "def get_inputs():\n    return [torch.randn(64, 96), torch.randn(96, 32)]\n",
      "product");
  BOOST_REQUIRE_MESSAGE(product.exit == 0, product.err);
  BOOST_TEST(contains(product.out, "extern_kernels.mm"), product.out);
  BOOST_TEST(!fs::exists(folder / "product/seeds/triton_inductor.py"));
  BOOST_TEST(fs::exists(folder / "product/seeds/cuda_naive.cu"));
}

// As README's whole model has it: build() and inputs() beside the class.
BOOST_AUTO_TEST_CASE(a_file_of_a_whole_model_becomes_one_task) {
  const CommandResult made = import(R"(import torch


class Scale(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(size) + 0.5)

    def forward(self, x):
        return torch.tanh(x) * self.weight


def build():
    return Scale(96)


def inputs():
    return [torch.randn(64, 96)]
)",
                                    "scale");
  BOOST_REQUIRE_MESSAGE(made.exit == 0, made.err);
  BOOST_TEST(fs::exists(folder / "scale/seeds/naive.cpp"), made.out);
  std::ifstream in(folder / "scale/task.yaml");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  BOOST_TEST(contains(text, "96"), text);
}

// Two experts for each token, of which equal scores make others as right, and weights that follow from them.
BOOST_AUTO_TEST_CASE(a_router_becomes_a_task_in_which_ties_are_right) {
  const CommandResult made = import(R"(import torch


def route(x, bias):
    experts = torch.topk(x + bias, 2).indices
    return {"weights": x.gather(1, experts), "experts": experts}


def get_inputs():
    return [torch.randn(512, 16), torch.randn(16)]
)",
                                    "router");
  BOOST_REQUIRE_MESSAGE(made.exit == 0, made.err);
  BOOST_TEST(made.err.starts_with("starting "), made.err);
  std::ifstream in(folder / "router/seeds/naive.cpp");
  std::string text(std::istreambuf_iterator<char>(in), {});
  const auto verdict = [&](const std::string& seed) {
    std::ofstream(folder / "seed.cpp") << seed;
    const auto judged = cultivar_in(folder, {"evaluate", "./router", "seed.cpp", "--stop-after", "edge",
                                             "--python", python_with_torch_2(), "--json"});
    return facts(judged)[0].dump();
  };
  const std::string first = verdict(text);
  BOOST_TEST(!contains(first, "rejected"), first);
  // Of equal scores the last one in place of the first, and the smallest scores in place of the greatest.
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    BOOST_REQUIRE_MESSAGE(at != std::string::npos, text);
    return changed.replace(at, from.size(), to);
  };
  const std::string last = verdict(with("return i < j;", "return i > j;"));
  BOOST_TEST(!contains(last, "rejected"), last);
  const std::string wrong = verdict(with("return falling ? x > y", "return !falling ? x > y"));
  BOOST_TEST(contains(wrong, "rejected"), wrong);
}

// y may have the memory of x: what needs x after it wrote y is wrong in half of the runs.
BOOST_AUTO_TEST_CASE(an_operation_in_place_becomes_a_task_that_is_checked_in_place) {
  const CommandResult made = import(
      "import torch\n\n\ndef shift(x):\n    x.add_(torch.roll(x, 1, 1))\n    return x\n\n\n"
      "def get_inputs():\n    return [torch.randn(300, 64)]\n",
      "shift");
  BOOST_REQUIRE_MESSAGE(made.exit == 0, made.err);
  const auto verdict = [&](const std::string& file) {
    return facts(cultivar_in(folder, {"evaluate", "./shift", file, "--stop-after", "edge", "--python",
                                      python_with_torch_2(), "--json"}))[0];
  };
  const auto seed = verdict("shift/seeds/naive.cpp");
  BOOST_TEST(seed["verdict"] != "rejected", seed.dump());
  const std::string head =
      "/*--- cultivar\nname: by_hand\ntask: shift\ntarget: cpu\nrequires: \"dtype == f32\"\nlaunch:\n"
      "  - kernel: shifted\n    threads: 1\n    args: [x, x_out, R, C]\n---*/\n"
      "extern \"C\" void shifted(const float* x, float* y, int R, int C) {\n"
      "  for (long r = 0; r < R; ++r) {\n    const float* from = x + r * C;\n    float* to = y + r * C;\n";
  std::ofstream(folder / "wrong.cpp")
      << head << "    for (int c = 0; c < C; ++c) to[c] = from[c] + from[(c + C - 1) % C];\n  }\n}\n";
  std::ofstream(folder / "right.cpp") << head
                                      << "    const float last = from[C - 1];\n    for (int c = C - 1; c > "
                                         "0; --c) to[c] = from[c] + from[c - 1];\n"
                                         "    to[0] = C > 1 ? from[0] + last : from[0] + from[0];\n  }\n}\n";
  BOOST_TEST(verdict("wrong.cpp")["verdict"] == "rejected");
  const auto right = verdict("right.cpp");
  BOOST_TEST(right["verdict"] != "rejected", right.dump());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_checked_is_refused) {
  const std::pair<std::string, std::string> files[] = {
      {"import torch\n\ndef f(x):\n    return torch.nn.functional.dropout(x, 0.5, True)\n\nexample_inputs = "
       "[torch.randn(8, 8)]\n",
       "random numbers"},
      {"import torch\n\ndef f(x):\n    return x * 0 + 3\n\nexample_inputs = [torch.randn(8, 8)]\n",
       "constant"},
      {"import torch\n\nknown = {}\n\ndef f(x):\n    return x - known.setdefault(x.shape, x.mean())\n\n"
       "example_inputs = [torch.randn(8, 8)]\n",
       "keeps state"},
      {"import torch\n\ndef f(x):\n    return x\n", "no example inputs"},
      {"def f(x:\n", "model.py:1: "},
  };
  for (const auto& [source, said] : files) {
    const CommandResult refused = import(source, "out");
    BOOST_TEST(refused.exit == 1, source << refused.out);
    BOOST_TEST(contains(refused.err, said), source << refused.err);
    BOOST_TEST(!fs::exists(folder / "out"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
