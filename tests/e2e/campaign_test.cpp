// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 600 s, engine/import, engine/suite, engine/cli, engine/export
// A whole model becomes a campaign, is searched by its ranking, and gets its kernels as a package that proves
// itself; on the CPU.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <set>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/places.hpp"
#include "support/pytorch.hpp"

using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

// Large enough that one call of the gate takes some milliseconds, which the cpu target can time.
const char* const kModel = R"(import torch
import torch.nn as nn


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight
        return y * torch.sigmoid(y) + torch.tanh(x)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.mix = Gate(width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.mix(self.gate(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.blocks = nn.ModuleList(Block(64) for _ in range(2))

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return x.mean(-1)


def build():
    return Model()


def inputs():
    return torch.randint(0, 100, (64, 512))
)";

const char* const kConvnet = R"(import torch
import torch.nn as nn


class Gate(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels, 1, 1) + 0.5)

    def forward(self, x):
        return x * torch.sigmoid(x * self.weight) + torch.tanh(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.gates = nn.ModuleList(Gate(16) for _ in range(2))
        self.between, self.head = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Linear(16, 10)

    def forward(self, x):
        x = self.between(self.gates[0](self.stem(x)))
        return self.head(self.gates[1](x).mean((2, 3)))


def build():
    return Model()


def inputs():
    return torch.randn(16, 3, 64, 64)
)";

// A user's program without Cultivar: its model, with and without the package, and a call with other sizes.
const char* const kUse = R"(import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/fast/source"]
import torch, whole_model, fast
torch.manual_seed(0)
model = whole_model.build().eval()
given = whole_model.inputs()
with torch.no_grad():
    right = model(given)
    print(fast.enable(model))
    for _ in range(2):
        torch.testing.assert_close(model(given), right, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model(given[:3]), right[:3], rtol=1e-4, atol=1e-5)
print(fast.report())
fast.disable()
)";

struct Desk {
  TemporaryFolder folder;
  CommandResult run(std::vector<std::string> arguments, double deadline_s = 900.0) {
    return cultivar_in(folder.path(), std::move(arguments), deadline_s);
  }

  // From the model's file to a package that a user's program uses, with a kernel for its gates.
  void flow(const char* model) {
    write_text(folder / "model.py", model);
    const auto made = run({"import", "model.py:build", "--inputs", "inputs", "--out", "camp", "--least", "0",
                           "--regions", "3", "--threads", "1", "--python", python_with_torch_2(), "--json"});
    BOOST_TEST_REQUIRE(made.exit == 0, made.err);
    const auto profile = facts(made);
    BOOST_TEST(fs::exists(folder / "camp/profile.svg"));
    BOOST_TEST(profile["fastest"].is_string());
    std::set<std::string> tasks;
    for (const auto& region : profile["regions"])
      if (region["refused"] == "") tasks.insert(region["name"].get<std::string>());
    BOOST_TEST_REQUIRE(tasks.contains("gate"), profile.dump(1));

    const auto searched =
        run({"optimise", "camp", "--only", "gate", "--slice", "60s", "--set", "budget.evaluations=3", "--set",
             "evaluation.screening_samples=3", "--set", "evaluation.max_samples=4", "--json"});
    BOOST_TEST_REQUIRE(searched.exit == 0, searched.err);
    const auto table = facts(searched);
    BOOST_TEST(table["ranking"].size() == tasks.size());
    BOOST_TEST(contains(searched.err, "gate is next: it was not searched"), searched.err);
    bool has_best = false;
    for (const auto& task : table["tasks"])
      has_best = has_best || (task["name"] == "gate" && task["best"].is_object());
    BOOST_TEST_REQUIRE(has_best, table.dump(1));
    BOOST_TEST(contains(run({"apply", "camp", "--out", "my-fast"}).err, "use letters, digits and _"));
    // The same table again, without a search.
    const auto again = run({"optimise", "camp", "--table", "--json"});
    BOOST_TEST(facts(again)["ranking"] == table["ranking"]);

    const auto applied =
        run({"apply", "camp", "--out", "fast", "--least-speedup", "0", "--seconds", "2", "--json"});
    BOOST_TEST_REQUIRE(applied.exit == 0, applied.out << applied.err);
    const auto proof = facts(applied)["proof"];
    BOOST_TEST(proof["right"] == true);
    BOOST_TEST(proof["kernel_calls"].get<int>() > 0);
    BOOST_TEST(proof["measured"]["blocks"].get<int>() >= 10);
    for (const auto& left : facts(applied)["left"]) BOOST_TEST(left["name"] != "gate");

    write_text(folder / "use.py", kUse);
    const auto used =
        run_command({python_with_torch_2(), (folder / "use.py").string(), folder.path().string()},
                    {.folder = "/", .environment = {}, .deadline_s = 240.0});
    BOOST_TEST(used.exit == 0, used.err);
    BOOST_TEST(contains(used.out, "2\ngate (Gate), 2 modules: 2 calls of the kernel; "), used.out);
    BOOST_TEST(contains(used.out, "2 of the original: other sizes"), used.out);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(campaign, Desk, *boost::unit_test::precondition(pytorch_2_is_here))

BOOST_AUTO_TEST_CASE(a_transformer_goes_to_a_package_that_proves_itself_and_notices_a_wrong_kernel) {
  flow(kModel);
  const std::string source = read_text(folder / "fast/kernels/gate/kernel.cpp");
  const std::size_t at = source.find("1.0e-06");
  BOOST_TEST_REQUIRE(at != std::string::npos, source);
  write_text(folder / "fast/kernels/gate/kernel.cpp", std::string(source).replace(at, 7, "1.0e+02"));
  fs::remove_all(folder / "fast/kernels/gate/build");
  const auto wrong =
      run_command({python_with_torch_2(), (folder / "fast/verify.py").string(), "--seconds", "1"},
                  {.folder = "/", .environment = {}, .deadline_s = 600.0});
  BOOST_TEST(wrong.exit == 1, wrong.out);
  BOOST_TEST(contains(wrong.out, "differs from the original"), wrong.out);
}

BOOST_AUTO_TEST_CASE(a_convnet_goes_to_a_package_that_a_program_without_cultivar_uses) {
  flow(kConvnet);
}

BOOST_AUTO_TEST_CASE(nothing_worth_doing_is_said_and_is_no_failure) {
  write_text(folder / "model.py", kModel);
  const auto made = run({"import", "model.py:build", "--inputs", "inputs", "--out", "camp", "--least", "1.5",
                         "--threads", "1", "--python", python_with_torch_2()});
  BOOST_TEST(made.exit == 0, made.err);
  BOOST_TEST(contains(made.out, "Nothing is worth doing"), made.out);
  BOOST_TEST(!fs::exists(folder / "camp/campaign.yaml"));
  const auto none = run({"optimise", "camp"});
  BOOST_TEST(none.exit == 2);
  BOOST_TEST(contains(none.err, "camp has no campaign.yaml"), none.err);
}

BOOST_AUTO_TEST_SUITE_END()
