// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 400 s, engine/suite, engine/cli
// `cultivar optimise` without PyTorch: a campaign of two regions that are tasks already, searched by their
// ranking, and killed again and again.
//
//   tests-e2e --run_test=optimise_command/killed* -- 30      30 kills instead of 6
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <map>
#include <random>

#include "support/child_process.hpp"
#include "support/contains.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

struct Camp {
  const int kills = number_given(6);
  // The search of `large` must outlast the kills.
  const int evaluations = std::max(5, 2 * kills - 7);
  TemporaryFolder folder;

  Camp() {
    write_own_task(folder.path(), "{evaluations: 1}");
    fs::create_directories(folder / "camp");
    // One call of `large` takes ten seconds in the model, so that any kernel gains; one of `small` takes
    // none.
    write_text(folder / "camp/campaign.yaml",
               "name: camp\n"
               "common:\n"
               "  task: ../rms_norm\n"
               "  workloads: small\n"
               "  evaluation: {screening_samples: 3, max_samples: 4, max_seconds: 1s}\n"
               "  gate: {max_device_seconds: 1s}\n"
               "  budget: {evaluations: " +
                   std::to_string(evaluations) +
                   ", wall: 60m}\n"
                   "budget: {wall: 60m}\n"
                   "ranking:\n"
                   "  small: {ms: 10, floor_ms: 9, call_ms: 0.0001}\n"
                   "  large: {ms: 10000, floor_ms: 1, call_ms: 10000}\n"
                   "tasks:\n"
                   "  - {name: small, seeds: [plain]}\n"
                   "  - {name: large, seeds: [plain, blocked]}\n");
  }
  CommandResult run(std::vector<std::string> arguments, double deadline_s = 300.0) {
    return cultivar_in(folder.path(), std::move(arguments), deadline_s);
  }
  // Evaluated individuals of each region.
  std::map<std::string, std::int64_t> evaluated() {
    std::map<std::string, std::int64_t> found;
    const auto table = run({"optimise", "camp", "--table", "--json"});
    if (table.exit == 0 || table.exit == 1)
      for (const auto& task : facts(table)["tasks"]) found[task["name"]] = task.value("evaluations", 0);
    return found;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(optimise_command, Camp)

BOOST_AUTO_TEST_CASE(killed_at_random_moments_it_continues_where_it_was_and_searches_nothing_twice) {
  std::mt19937 chance(38);  // the moments differ from run to run all the same
  std::map<std::string, std::int64_t> before;
  for (int kill = 0; kill < kills; ++kill) {
    const auto ended = run({"optimise", "camp", "--slice", "5s", "--trust"},
                           std::uniform_real_distribution(0.3, 12.0)(chance));
    if (ended.exit == 0) break;
    const auto now = evaluated();
    for (const auto& [name, count] : before) BOOST_TEST(now.at(name) >= count, name);
    if (!now.empty()) before = now;
  }
  const auto finished = run({"optimise", "camp", "--slice", "5s", "--trust", "--json"});
  BOOST_TEST_REQUIRE(finished.exit == 0, finished.err);
  const auto table = facts(finished);
  for (const auto& task : table["tasks"]) {
    BOOST_TEST(task["state"] == "finished");
    BOOST_TEST(task["evaluations"].get<int>() ==
               (task["name"] == "small" ? 1 : evaluations));  // it has no tunables
    const auto replayed = run({"replay", "camp/runs/" + task["name"].get<std::string>()});
    BOOST_TEST(replayed.exit == 0, replayed.err);
  }
  const auto ranking = table["ranking"];
  BOOST_TEST_REQUIRE(ranking.size() == 2U);
  BOOST_TEST(ranking[0]["gain_ms"] == 0.0);  // slower than what the model has: it stays
  BOOST_TEST(ranking[1]["gain_ms"].get<double>() > 9000.0);
  // The same command has nothing to do, and the table is the same.
  const auto again = run({"optimise", "camp", "--json"});
  BOOST_TEST(again.exit == 0, again.err);
  BOOST_TEST(facts(again)["ranking"] == ranking);
  BOOST_TEST(facts(again)["tasks"].dump() == table["tasks"].dump());
  BOOST_TEST(contains(read_text(folder / "camp/runs/table.md"), "What the model gains"));
}

BOOST_AUTO_TEST_CASE(the_region_with_the_greatest_possible_gain_is_first_and_makes_way_once_it_has_a_kernel) {
  const auto ended = run({"optimise", "camp", "--slice", "10m"});
  BOOST_TEST_REQUIRE(ended.exit == 0, ended.err);
  const std::size_t large = ended.err.find("large is next: it was not searched"),
                    small = ended.err.find("small is next: it was not searched");
  BOOST_TEST_REQUIRE(large != std::string::npos, ended.err);
  BOOST_TEST_REQUIRE(small != std::string::npos, ended.err);
  BOOST_TEST(large < small);
  BOOST_TEST(ended.err.find("another search goes on") < small, ended.err);
}

BOOST_AUTO_TEST_SUITE_END()
