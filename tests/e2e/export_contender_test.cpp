// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 90 s, engine/export
// Uses exports: their kernels are built, and the program times them as contenders beside others.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <sstream>

#include "support/contains.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

// Two exports of one run: the seed `plain`, and `blocked`.
struct Exports {
  TemporaryFolder folder;

  Exports() {
    write_own_task(folder.path(), "{evaluations: 2, wall: 15m}");
    BOOST_TEST_REQUIRE(run({"run", "search.yaml"}).exit == 0);
    for (const std::string id : {"1", "2"})
      BOOST_TEST_REQUIRE(run({"export", "own", "--id", id, "--out", "bundle_" + id}).exit == 0);
  }
  CommandResult run(std::vector<std::string> arguments) {
    return cultivar_in(folder.path(), std::move(arguments));
  }
  // The contender's name in tables, which its file has too.
  std::string built(const std::string& id) {
    const std::string bundle = (folder / ("bundle_" + id)).string();
    const auto build = run_command(
        {"sh", "-c", "cmake -S " + bundle + " -B " + bundle + "/build && cmake --build " + bundle + "/build"},
        {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
    BOOST_TEST_INFO(build.out + build.err);
    BOOST_TEST_REQUIRE(build.exit == 0);
    const auto facts = nlohmann::json::parse(read_text(bundle + "/bundle.json"));
    return "own_" + facts["id"].get<std::string>().substr(0, 8);
  }
  std::string library(const std::string& id, const std::string& name) {
    return "bundle_" + id + "/build/lib" + name + ".so";
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(export_contender, Exports)

BOOST_AUTO_TEST_CASE(exported_kernels_are_contenders_of_one_evaluation_and_a_broken_one_is_skipped) {
  const std::string one = built("1"), two = built("2");
  BOOST_TEST(one != two);
  const std::vector<std::string> beside{"evaluate",        "rms_norm",    "blocked",         "--workloads",
                                        "unseen",          "--contender", library("1", one), "--contender",
                                        library("2", two), "--json"};
  const auto result = run(beside);
  BOOST_TEST_INFO(result.out + result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  const auto judged = facts(result)[0];
  BOOST_TEST(judged["verdict"] == "measured");
  for (const auto& workload : judged["workloads"])
    for (const std::string& name : {one, two}) BOOST_TEST(workload["ratios"][name].get<double>() > 0.0, name);

  const auto& beside_best = judged["best_contender"];
  BOOST_TEST(beside_best["lowest"].get<double>() <= beside_best["geometric_mean"].get<double>());
  BOOST_TEST(beside_best["lowest_on"] == judged["workloads"][0]["name"]);  // there is only one

  // Nothing but C functions: two of them in one process must not find each other's kernels.
  const auto symbols =
      run_command({"sh", "-c", "nm -D --defined-only " + (folder / library("1", one)).string()});
  std::istringstream lines(symbols.out);
  int functions = 0;
  for (std::string line; std::getline(lines, line); ++functions)
    BOOST_TEST((contains(line, " T cultivar_contender_") || contains(line, " T cultivar_export_")), line);
  BOOST_TEST(functions == 10);

  // A second export keeps files of other origin, including a build, and replaces files of the first export.
  write_text(folder / "bundle_1/notes/mine.txt", "mine");
  write_text(folder / "bundle_1/gone.txt", "of an older export");
  auto facts_of_bundle = nlohmann::json::parse(read_text(folder / "bundle_1/bundle.json"));
  facts_of_bundle["files"].push_back("gone.txt");
  write_text(folder / "bundle_1/bundle.json", facts_of_bundle.dump());
  write_text(folder / "bundle_1/README.md", "scribbled over");
  BOOST_TEST_REQUIRE(run({"export", "own", "--id", "1", "--out", "bundle_1"}).exit == 0);
  BOOST_TEST(read_text(folder / "bundle_1/notes/mine.txt") == "mine");
  BOOST_TEST(fs::exists(folder / library("1", one)));
  BOOST_TEST(!fs::exists(folder / "bundle_1/gone.txt"));
  BOOST_TEST(read_text(folder / "bundle_1/README.md").find("scribbled") == std::string::npos);
  BOOST_TEST(!fs::exists(folder / ".bundle_1.earlier"));

  std::string source = read_text(folder / "bundle_2/kernel.cpp");
  const std::size_t at = source.find("* scale");
  BOOST_TEST_REQUIRE(at != std::string::npos);
  write_text(folder / "bundle_2/kernel.cpp", source.replace(at, 7, "* scale * 1.001f"));
  built("2");
  const auto wrong = run(beside);
  BOOST_TEST(wrong.exit == 0);
  BOOST_TEST(
      contains(facts(wrong)[0]["diagnostics"].get<std::string>(), "contender " + two + ": wrong result on "),
      wrong.out);
}

BOOST_AUTO_TEST_SUITE_END()
