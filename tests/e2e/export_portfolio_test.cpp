// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 100 s, engine/export
// A run whose two kernels are each faster on another workload becomes one project: measured, exported, built,
// verified, and called through C++, as a contender and from PyTorch.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/pytorch.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

// Which kernel takes which shape: also shapes between the measured ones, and one that a kernel refuses.
constexpr const char* kAsks = R"(
#include <cmath>
#include <cstdio>
#include "rms_norm.hpp"
int main() {
  cultivar_export::RmsNorm kernel(2);
  const auto sizes = [](std::int64_t R, std::int64_t C) { return cultivar_export::RmsNormArguments{.R = R, .C = C}; };
  for (const auto& asked : {sizes(6400, 512), sizes(800, 4096), sizes(5000, 900), sizes(1000, 2500), sizes(40000, 9000)})
    std::printf("%s ", kernel.kernel_for(asked));
  std::printf("%d %d\n", kernel.accepts(sizes(500, 60000)), kernel.accepts(sizes(0, 64)));
  alignas(64) static float x[3 * 100], y[3 * 100];
  for (int i = 0; i < 300; ++i) x[i] = float(i % 7) - 2.5f;
  auto call = sizes(3, 100);
  call.x = x;
  call.y = y;
  kernel(call);
  double sum = 0;
  for (int c = 0; c < 100; ++c) sum += double(x[c]) * x[c];
  std::printf("%s\n", std::abs(y[5] - x[5] / std::sqrt(sum / 100 + 1e-5)) < 1e-5 ? "right" : "wrong");
  try {
    kernel(sizes(3, 100));
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
  }
}
)";

struct Desk {
  TemporaryFolder folder;

  Desk() {
    write_own_task(folder.path(), "{evaluations: 2, wall: 15m}");
    set_own_workloads(folder.path(), "      - {R: 6400, C: 512}\n      - {R: 800, C: 4096}\n");
    const fs::path kernels = fs::path(CULTIVAR_SOURCE_DIR) / "tests/kernels/specialists";
    std::string search = read_text(folder / "search.yaml");
    const std::string seeds = "[plain, blocked]";
    write_text(folder / "search.yaml", search.replace(search.find(seeds), seeds.size(),
                                                      "[" + (kernels / "short_rows.cpp").string() + ", " +
                                                          (kernels / "long_rows.cpp").string() + "]"));
  }
  CommandResult run(std::vector<std::string> arguments) {
    auto result = cultivar_in(folder.path(), std::move(arguments));
    BOOST_TEST_INFO(result.out + result.err);
    BOOST_TEST_REQUIRE(result.exit == 0);
    return result;
  }
  CommandResult shell(const std::string& line) {
    return run_command({"sh", "-c", line}, {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(export_portfolio, Desk)

BOOST_AUTO_TEST_CASE(two_specialists_are_found_and_called_like_one_kernel) {
  run({"run", "search.yaml"});
  const auto early = cultivar_in(folder.path(), {"export", "own", "--portfolio"});
  BOOST_TEST(early.exit == 1);
  BOOST_TEST(contains(early.err, "cultivar portfolio own"), early.err);

  const auto found = facts(run({"portfolio", "own", "--kernels", "2", "--max-seconds", "120", "--json"}));
  const auto& entries = found.at("entries");
  BOOST_TEST_REQUIRE(entries.size() == 2U);
  BOOST_TEST(entries[0].at("kernel") == 1);  // short_rows
  BOOST_TEST(entries[1].at("kernel") == 2);
  const int best = found.at("best").get<int>();
  const auto& special = entries[best == 1 ? 1 : 0];
  BOOST_TEST(special.at("log_ratio").get<double>() > 0.3, special.dump());  // a third of the work
  BOOST_TEST(special.at("lower").get<double>() > 0.0, special.dump());
  BOOST_TEST(entries[best == 1 ? 0 : 1].at("log_ratio") == 0.0);
  BOOST_TEST(found.at("gain").at("lower").get<double>() > 0.0);
  BOOST_TEST(found.at("refused").empty(), found.at("refused").dump());

  const auto exported = facts(run({"export", "own", "--portfolio", "--out", "bundle", "--json"}));
  BOOST_TEST(exported.at("kernels").size() == 2U);
  const fs::path bundle = folder / "bundle";
  for (const char* file : {"rms_norm.hpp", "kernels/1/rms_norm.hpp", "kernels/2/kernel.cpp", "TABLE.md"})
    BOOST_TEST(fs::exists(bundle / file), file);
  BOOST_TEST(contains(read_text(bundle / "TABLE.md"), "geometric mean"));
  BOOST_TEST(contains(read_text(bundle / "README.md"), "2 kernels behind one entry"));
  const auto built = shell("cmake -S bundle -B bundle/build && cmake --build bundle/build");
  BOOST_TEST_INFO(built.out + built.err);
  BOOST_TEST_REQUIRE(built.exit == 0);
  const auto verified = shell("bundle/build/verify --quick --strict");
  BOOST_TEST(verified.exit == 0, verified.out + verified.err);
  BOOST_TEST(contains(verified.out, " 1\n"), verified.out);
  BOOST_TEST(contains(verified.out, " 2\n"), verified.out);

  write_text(folder / "asks.cpp", kAsks);
  const auto asked =
      shell("g++ -std=c++20 -O1 -Ibundle asks.cpp bundle/build/librms_norm.a -o asks && ./asks");
  BOOST_TEST(asked.out ==
                 "1 2 1 2 2 1 0\nright\nrms_norm: the tensor x is null: pass the address of its 1200 bytes\n",
             asked.out + asked.err);

  const std::string identity = nlohmann::json::parse(read_text(bundle / "bundle.json")).at("id");
  const std::string library = "bundle/build/libown_" + identity.substr(0, 8) + ".so";
  const auto judged = facts(
      run({"evaluate", "rms_norm", "blocked", "--workloads", "small", "--contender", library, "--json"}));
  for (const auto& workload : judged[0].at("workloads"))
    BOOST_TEST(workload.at("ratios").size() == 1U, workload.dump());

  if (!python_with_torch().empty()) {
    const auto tested = shell(python_with_torch() + " bundle/pytorch/test_cultivar_rms_norm.py");
    BOOST_TEST(tested.exit == 0, tested.out + tested.err);
    BOOST_TEST(contains(tested.out, "\npassed: "), tested.out);
  }

  // A kernel that loses NaNs is right for other inputs.
  std::string source = read_text(bundle / "kernels/1/kernel.cpp");
  const std::string honest = "y[i] = x[i] * scale";
  write_text(bundle / "kernels/1/kernel.cpp",
             source.replace(source.find(honest), honest.size(), "y[i] = x[i] == x[i] ? x[i] * scale : 0.0f"));
  BOOST_TEST_REQUIRE(shell("cmake --build bundle/build").exit == 0);
  const auto usual = shell("bundle/build/verify --quick"),
             strict = shell("bundle/build/verify --quick --strict");
  BOOST_TEST(usual.exit == 0, usual.out);
  BOOST_TEST(strict.exit == 1, strict.out);
  BOOST_TEST(contains(strict.out, "FAILED: NaN or infinity does not spread"), strict.out);
}

BOOST_AUTO_TEST_SUITE_END()
