// SPDX-License-Identifier: Apache-2.0
// A PyTorch file becomes a task that runs, or is refused with the reason.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/pytorch.hpp"

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

BOOST_AUTO_TEST_CASE(what_cannot_be_checked_is_refused) {
  const std::pair<std::string, std::string> files[] = {
      {"import torch\n\ndef f(x):\n    return torch.nn.functional.dropout(x, 0.5, True)\n\nexample_inputs = "
       "[torch.randn(8, 8)]\n",
       "random numbers"},
      {"import torch\n\ndef f(x):\n    return x * 0 + 3\n\nexample_inputs = [torch.randn(8, 8)]\n",
       "constant"},
      {"import torch\n\ndef f(x):\n    x += 1\n    return x\n\nexample_inputs = [torch.randn(8, 8)]\n",
       "in place"},
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
