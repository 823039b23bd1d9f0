// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 150 s, engine/export
// A portfolio learnt over a domain, by the real programs on this machine's cores: a call that is killed, the
// next one that goes on, and the bundle that dispatches by the table.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <set>
#include <sstream>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/pytorch.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

// short_rows is three times as fast where rows have at most 1024 columns, long_rows elsewhere.
struct Desk {
  TemporaryFolder folder;

  void search() {
    write_own_task(folder.path(), "{evaluations: 2, wall: 15m}");
    set_own_workloads(folder.path(), "      - {R: 6400, C: 512}\n      - {R: 800, C: 4096}\n");
    const fs::path kernels = fs::path(CULTIVAR_SOURCE_DIR) / "tests/kernels/specialists";
    std::string text = read_text(folder / "search.yaml");
    const std::string seeds = "[plain, blocked]";
    write_text(folder / "search.yaml", text.replace(text.find(seeds), seeds.size(),
                                                    "[" + (kernels / "short_rows.cpp").string() + ", " +
                                                        (kernels / "long_rows.cpp").string() + "]"));
    run({"run", "search.yaml"});
  }
  CommandResult run(std::vector<std::string> arguments) {
    auto result = cultivar_in(folder.path(), std::move(arguments));
    BOOST_TEST_INFO(result.out + result.err);
    BOOST_TEST_REQUIRE(result.exit == 0);
    return result;
  }
  CommandResult shell(const std::string& line, double deadline_s = 300.0) {
    return run_command({"sh", "-c", line},
                       {.folder = folder.path(), .environment = {}, .deadline_s = deadline_s});
  }
  // The drawn shapes that count, of which the run's folder holds times, in their order.
  std::vector<std::string> kept() const {
    std::vector<std::string> shapes;
    if (!fs::exists(folder / "runs/own/portfolio.over.jsonl")) return shapes;
    std::istringstream lines(read_text(folder / "runs/own/portfolio.over.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto parsed = nlohmann::json::parse(line, nullptr, false);
      if (!parsed.is_discarded() && parsed.value("what", "") == "drawn" &&
          parsed.at("times").value("left_out", "").empty())
        shapes.push_back(parsed.at("times").at("shape"));
    }
    return shapes;
  }
};

// What the choice costs: the fastest of many batches of calls, in ns, so that other work on the machine is
// left out.
constexpr const char* kChooses = R"(
#include <algorithm>
#include <chrono>
#include <cstdio>
#include "rms_norm.hpp"
int main() {
  const cultivar_export::RmsNorm kernel(1);
  cultivar_export::RmsNormArguments asked{.R = 4096, .C = 512};
  double least = 1e9;
  unsigned long sum = 0;
  for (int batch = 0; batch < 2000; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) {
      asked.C = 256 + 8 * (i & 511);
      sum += (unsigned char)*kernel.kernel_for(asked);
    }
    least = std::min(least, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / 1000);
  }
  std::printf("%.1f ns, %s %s, %s, %d%d\n", least, kernel.kernel_for({.R = 4096, .C = 512}), kernel.kernel_for({.R = 2048, .C = 8000}),
              kernel.rule_for({.R = 4096, .C = 512}), kernel.is_inside({.R = 4096, .C = 512}), kernel.is_inside({.R = 1, .C = 512}));
  return sum == 0;
}
)";

}  // namespace

BOOST_FIXTURE_TEST_SUITE(portfolio_over, Desk)

BOOST_AUTO_TEST_CASE(a_table_is_learnt_after_a_kill_and_the_bundle_dispatches_by_it) {
  search();
  const std::vector<std::string> command{"portfolio", "own", "--over",    "R: 256-4096, C: 256-4096 step 8",
                                         "--shapes",  "10",  "--proof",   "8",
                                         "--budget",  "10m", "--most-ms", "3000",
                                         "--json"};
  // Killed once some shapes are measured.
  std::string words;
  for (const std::string& word : cultivar_command(command)) words += "'" + word + "' ";
  const auto killed =
      shell("setsid " + words +
            " >killed.out 2>&1 & pid=$!; for i in $(seq 600); do test $(grep -c '\"what\":\"drawn\"' "
            "runs/own/portfolio.over.jsonl 2>/dev/null || echo 0) -ge 3 && break; sleep 0.2; done; kill -9 "
            "-$pid; wait $pid");
  const auto before = kept();
  BOOST_TEST_INFO(killed.out + killed.err + read_text(folder / "killed.out"));
  BOOST_TEST_REQUIRE(before.size() >= 3U);

  const auto found = facts(run(command));
  const auto after = kept();
  BOOST_TEST_REQUIRE(after.size() >= 18U);
  BOOST_TEST(std::vector(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(before.size())) == before,
             boost::test_tools::per_element());
  BOOST_TEST(std::set(after.begin(), after.end()).size() == after.size());  // none was measured twice

  const auto& over = found.at("over");
  BOOST_TEST(over.at("kernels").size() == 2U, over.at("table").dump());
  BOOST_TEST(over.at("learnt") == 10, over.dump());
  const auto& drawn = found.at("drawn");
  BOOST_TEST(drawn.at("shapes") == 8);
  BOOST_TEST_MESSAGE("drawn: " << drawn.dump() << "\nlisted: " << found.at("listed").dump());
  // The wrong kernel takes three times as long: at most two of eight shapes may lie beside a rough threshold.
  BOOST_TEST(drawn.at("regret").at("geometric_mean").get<double>() < 1.4, drawn.dump());
  BOOST_TEST(found.at("entries")[0].at("kernel") == 1);  // short_rows
  BOOST_TEST(found.at("entries")[1].at("kernel") == 2);
  BOOST_TEST(found.at("listed").at("shapes") == 2);

  // Nothing is left to measure.
  const auto again = facts(run(command));
  BOOST_TEST(again.at("over").at("table") == over.at("table"));
  BOOST_TEST(kept().size() == after.size());

  run({"export", "own", "--portfolio", "--out", "bundle"});
  const std::string readme = read_text(folder / "bundle/README.md"),
                    table = read_text(folder / "bundle/TABLE.md");
  for (const char* part : {"2 kernels behind one entry", "R: 256-4096, C: 256-4096 step 8",
                           "On 8 shapes drawn after the table was fitted", "On 2 listed shapes"})
    BOOST_TEST(contains(readme, part), readme);
  BOOST_TEST(contains(table, "Learnt from 10 shapes drawn in the domain"), table);
  BOOST_TEST(contains(table, "#1, then #2"), table);
  BOOST_TEST(contains(table, "\n- `"), table);  // rules are code, in which nothing is escaped
  BOOST_TEST(contains(table, " <= "), table);
  BOOST_TEST(!contains(table, "&lt;="), table);
  const auto manifest = nlohmann::json::parse(read_text(folder / "bundle/manifest.json"));
  const auto& dispatch = manifest.at("dispatch");
  BOOST_TEST(dispatch.at("learnt_from") == "drawn shapes");
  BOOST_TEST(dispatch.at("drawn") == drawn);
  BOOST_TEST(dispatch.at("rules").size() >= 2U);

  const auto built = shell("cmake -S bundle -B bundle/build && cmake --build bundle/build");
  BOOST_TEST_INFO(built.out + built.err);
  BOOST_TEST_REQUIRE(built.exit == 0);
  write_text(folder / "chooses.cpp", kChooses);
  const auto chose =
      shell("g++ -std=c++20 -O2 -Ibundle chooses.cpp bundle/build/librms_norm.a -o chooses && ./chooses");
  BOOST_TEST_MESSAGE("the choice takes " << chose.out);
  BOOST_TEST(contains(chose.out, " ns, 1 2, "), chose.out + chose.err);
  // The rule, of R, of C or of both: one of those that the table names.
  const std::size_t first = chose.out.find(" 1 2, ") + 6, last = chose.out.find(", 10\n");
  BOOST_TEST_REQUIRE((first < last && last != std::string::npos), chose.out);
  BOOST_TEST(contains(table, chose.out.substr(first, last - first)), chose.out + table);
  BOOST_TEST(contains(chose.out, ", 10\n"), chose.out);
  BOOST_TEST(std::stod(chose.out) < 500.0);

  if (python_with_torch().empty()) return;
  write_text(folder / "explains.py",
             "import sys, torch\nsys.path.insert(0, 'bundle/pytorch')\nimport cultivar_rms_norm as it\n"
             "for R in (4096, 1): print(it.explain(torch.empty(R, 512, device='meta')))\n");
  const auto explained = shell(python_with_torch() + " explains.py");
  BOOST_TEST(contains(explained.out, "kernel 1 by the rule '"), explained.out + explained.err);
  BOOST_TEST(contains(explained.out,
                      "', learnt from 10 shapes drawn in the domain R: 256-4096, C: 256-4096 step 8; "
                      "on 8 drawn later it took "),
             explained.out);
  BOOST_TEST(contains(explained.out, " (these sizes are in it), "), explained.out);
  BOOST_TEST(contains(explained.out, " (these sizes are outside of it), "), explained.out);
}

BOOST_AUTO_TEST_CASE(what_is_not_understood_is_refused_before_anything_is_measured) {
  write_own_task(folder.path(), "{evaluations: 1, wall: 15m}");
  run({"run", "search.yaml"});
  const auto refused = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"portfolio", "own"});
    const auto result = cultivar_in(folder.path(), std::move(arguments));
    BOOST_TEST(result.exit != 0);
    BOOST_TEST(!fs::exists(folder / "runs/own/portfolio.json"));
    return result.out + result.err;
  };
  BOOST_TEST(
      contains(refused({"--over", "Q: 1-2"}), "--over: the task rms_norm has no dimension or parameter Q"));
  BOOST_TEST(contains(refused({"--over", "R: 1-2", "--budget", "soon"}), "--budget: 'soon' is no duration"));
  BOOST_TEST(contains(refused({"--over", "R: 1-2", "--shapes", "2"}), "--shapes must be at least 4"));
  BOOST_TEST(contains(refused({"--with", "1"}), "--with names kernels for --over"));
}

BOOST_AUTO_TEST_SUITE_END()
