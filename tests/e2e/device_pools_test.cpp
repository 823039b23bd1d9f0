// SPDX-License-Identifier: Apache-2.0
// long: 150 s, evaluators/worker
// Workers that a launcher starts on devices of different kinds: one that may use a core less is another
// device.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <thread>

#include "support/contains.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

boost::test_tools::assertion_result there_are_two_cores(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result enough(std::thread::hardware_concurrency() >= 2);
  enough.message() << "this machine has one core";
  return enough;
}

// One worker at a time is on a machine with two cores, the others are on one with one.
struct Cluster : TemporaryFolder {
  Cluster() {
    write_own_task(path(), "{evaluations: 8, wall: 15m}");
    write_text(path() / "launch.sh",
               "#!/bin/sh\n"
               "exec 9>\"$(dirname \"$0\")/large\"\n"
               "flock -n 9 && exec \"$@\"\n"
               "exec taskset -c 0 \"$@\" 9>&-\n",
               true);
    write_text(path() / "small.sh", "#!/bin/sh\nexec taskset -c 0 \"$@\"\n", true);
  }
  CommandResult run(std::vector<std::string> arguments) { return cultivar_in(path(), std::move(arguments)); }
  std::vector<std::string> search(const std::string& what) {
    return {"run",   "search.yaml",
            "--set", "evaluation.launcher={measure: [" + (path() / "launch.sh").string() + "]}",
            "--set", "evaluation.cores=2",
            "--set", "evaluation.workers_per_device=2",
            what};
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(device_pools, Cluster, *boost::unit_test::precondition(there_are_two_cores))

BOOST_AUTO_TEST_CASE(a_worker_on_another_kind_of_device_is_told_and_not_used_and_the_others_go_on) {
  const auto result = run(search("--verbose"));
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  BOOST_TEST(contains(result.out + result.err, "which is not the kind of device of this search"),
             result.out + result.err);
  const auto end = facts(run({"status", "own", "--json"}));
  BOOST_TEST(end["evaluations"].get<int>() >= 8);
  BOOST_TEST(end["best"]["fitness"].get<double>() > 0.0);
  BOOST_TEST(end["devices"].size() == 1U);
  BOOST_TEST(contains(end["devices"][0].get<std::string>(), ", 2 cores,"));

  // A search that is resumed on the small machine alone does not mix its times with those of the record.
  const auto small = run({"resume", "own", "--trust", "--set", "budget.evaluations=20", "--set",
                          "evaluation.launcher={measure: [" + (path() / "small.sh").string() + "]}"});
  BOOST_TEST(small.exit != 0);
  BOOST_TEST(contains(small.err, "their times cannot be compared"), small.err);
  BOOST_TEST(contains(small.err, ", 1 cores,"), small.err);
}

BOOST_AUTO_TEST_CASE(while_it_runs_its_status_shows_the_workers_of_each_kind) {
  std::vector<std::string> command = search("--detach");
  command.insert(command.end(), {"--set", "budget={wall: 10m}"});
  BOOST_TEST_REQUIRE(run(command).exit == 0);
  nlohmann::json workers;
  for (int i = 0; i < 600 && workers.size() < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const auto now = run({"status", "own", "--json"});
    if (now.exit == 0) workers = facts(now)["workers"];
  }
  BOOST_TEST_REQUIRE(workers.size() == 2U);
  BOOST_TEST(workers[0]["measures"] == true);
  BOOST_TEST(workers[0]["workers"] == 1);
  BOOST_TEST(contains(workers[0]["device"].get<std::string>(), ", 2 cores,"));
  BOOST_TEST(workers[1]["measures"] == false);
  BOOST_TEST(contains(workers[1]["device"].get<std::string>(), ", 1 cores,"));
  const std::string text = run({"status", "own"}).out;
  BOOST_TEST(contains(text, "not used, since times on different devices cannot be compared"), text);
  BOOST_TEST(run({"stop", "own"}).exit == 0);
  BOOST_TEST(facts(run({"status", "own", "--json"}))["workers"].empty());
}

BOOST_AUTO_TEST_CASE(a_check_before_the_search_says_how_many_workers_are_on_which_device) {
  const auto result = run(search("--check"));
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  BOOST_TEST(contains(result.out, "1 of 2 measure workers: on "), result.out);
  BOOST_TEST(contains(result.out, "several kinds of devices"), result.out);
  auto check = search("--check");
  check.emplace_back("--json");
  BOOST_TEST(facts(run(check))["workers"].size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_resumed_search_waits_for_a_launcher_that_fails_at_first) {
  const auto first = run({"run", "search.yaml", "--set", "budget.evaluations=2"});
  BOOST_TEST_REQUIRE(first.exit == 0, first.err);
  write_text(path() / "late.sh",
             "#!/bin/sh\n"
             "starts=$(cat \"$0.starts\" 2>/dev/null || echo 0)\n"
             "echo $((starts + 1)) >\"$0.starts\"\n"
             "[ \"$starts\" -ge 2 ] && exec \"$@\"\n"
             "echo 'the host is not up' >&2\nexit 1\n",
             true);
  const std::vector<std::string> resume{
      "resume",
      "own",
      "--trust",
      "--set",
      "budget.evaluations=4",
      "--set",
      "evaluation.launcher={measure: [" + (path() / "late.sh").string() + "]}"};
  auto impatient = resume;
  impatient.insert(impatient.end(), {"--set", "evaluation.patience=0.5s"});
  const auto failed = run(impatient);
  BOOST_TEST(failed.exit == 1, failed.out + failed.err);
  BOOST_TEST(contains(failed.err, "the host is not up"), failed.err);
  auto patient = resume;
  patient.insert(patient.end(), {"--set", "evaluation.patience=1m"});
  const auto late = run(patient);
  BOOST_TEST_REQUIRE(late.exit == 0, late.out + late.err);
  BOOST_TEST(facts(run({"status", "own", "--json"}))["evaluations"].get<int>() >= 4);
}

BOOST_AUTO_TEST_SUITE_END()
