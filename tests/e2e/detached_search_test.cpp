// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 60 s, engine/cli
// A search whose owner leaves: without a terminal, followed, stopped and resumed from elsewhere.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <regex>
#include <thread>

#include "support/contains.hpp"
#include "support/own_task.hpp"

using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

struct Away {
  TemporaryFolder folder;
  CommandResult run(std::vector<std::string> arguments) {
    return cultivar_in(folder.path(), std::move(arguments), 120.0);
  }
  nlohmann::json status() { return facts(run({"status", "runs/own", "--json"})); }
  bool becomes(const std::string& state) {
    for (int i = 0; i < 600; ++i) {
      if (status()["state"] == state) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }
  ~Away() { (void)run({"stop", "runs/own", "--now"}); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(detached_search, Away)

BOOST_AUTO_TEST_CASE(it_runs_without_a_terminal_and_is_followed_stopped_and_resumed) {
  write_own_task(folder.path(), "{wall: 10m}");
  const auto begun = run({"run", "search.yaml", "--detach", "--json"});
  BOOST_TEST_INFO(begun.out << begun.err);
  BOOST_TEST_REQUIRE(begun.exit == 0);
  BOOST_TEST(facts(begun)["state"] == "running");
  const auto now = status();
  BOOST_TEST(now["state"] == "running");
  BOOST_TEST(now["process"] == facts(begun)["process"]);
  BOOST_TEST(now["heartbeat_age_s"].get<double>() < 60.0);

  const auto listed = facts(run({"runs", "--json"}));
  bool found = false;
  for (const auto& each : listed)
    found |= each["folder"] == (folder / "runs/own").string() && each["status"]["state"] == "running";
  BOOST_TEST(found, listed.dump());
  BOOST_TEST(contains(run({"runs"}).out, "running"));

  // A batch system that is about to end the job: the search makes a checkpoint, and goes on.
  const auto checkpoints = [&] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder / "runs/own/checkpoints"))
      count += entry.path().extension() == ".db" ? 1 : 0;
    return count;
  };
  BOOST_TEST(checkpoints() == 0);
  ::kill(now["process"].get<int>(), SIGUSR1);
  for (int i = 0; i < 100 && checkpoints() == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  BOOST_TEST(checkpoints() == 1);
  BOOST_TEST(status()["state"] == "running");

  RunningCommand follower(cultivar_command({"attach", "runs/own"}),
                          {.folder = folder.path(), .environment = {}, .deadline_s = 60.0});
  std::this_thread::sleep_for(std::chrono::seconds(1));
  follower.signal(SIGINT);
  const auto left = follower.wait();
  BOOST_TEST(left.exit == 0);
  BOOST_TEST(contains(left.out, "Searching: own"), left.out);
  BOOST_TEST(contains(left.err, "stop"), left.err);
  BOOST_TEST(status()["state"] == "running");

  const auto busy = run({"gc", "own"});
  BOOST_TEST(busy.exit == 1);
  BOOST_TEST(contains(busy.err, "in use"), busy.err);

  const auto second = run({"run", "search.yaml", "--detach"});
  BOOST_TEST(second.exit == 2);

  const auto stopped = run({"stop", "own", "--json"});
  BOOST_TEST_INFO(stopped.err);
  BOOST_TEST(stopped.exit == 0);
  BOOST_TEST(facts(stopped)["state"] == "stopped");
  BOOST_TEST(run({"stop", "own"}).exit == 0);  // it does not run: nothing to do
  BOOST_TEST(contains(read_text(folder / "runs/own/search.log"), "Stopped with a checkpoint"));

  BOOST_TEST_REQUIRE(run({"resume", "own", "--detach", "--set", "budget.wall=1h"}).exit == 0);
  BOOST_TEST(status()["state"] == "running");
  BOOST_TEST(status()["budget"]["wall"]["limit"] == 3600.0);

  const int process = status()["process"];
  ::kill(process, SIGSTOP);
  const auto waiting = run({"stop", "own", "--wait", "13s"});
  ::kill(process, SIGCONT);
  BOOST_TEST(waiting.exit == 1);
  BOOST_TEST(contains(waiting.err, "kill -CONT " + std::to_string(process)), waiting.err);
  BOOST_TEST(!contains(waiting.err, "kill -9"), waiting.err);
  BOOST_TEST(run({"stop", "own"}).exit == 0);
  const std::string log = read_text(folder / "runs/own/search.log");
  const std::regex suspended(
      "\n[0-9]{4}-[0-9]{2}-[0-9]{2} [0-2][0-9]:[0-5][0-9] +[0-9.]+ (s|min( [0-9]+ s)?)  suspended  for 1");
  BOOST_TEST(std::regex_search(log, suspended), log);

  const auto evaluated = status()["evaluations"];
  const auto smaller = run({"gc", "own", "--json"});
  BOOST_TEST_INFO(smaller.err);
  BOOST_TEST_REQUIRE(smaller.exit == 0);
  BOOST_TEST(facts(smaller)["bytes_after"].get<std::int64_t>() <=
             facts(smaller)["bytes_before"].get<std::int64_t>());
  BOOST_TEST(checkpoints() == 1);
  BOOST_TEST(status()["evaluations"] == evaluated);
  BOOST_TEST(run({"replay", "own"}).exit == 0);
}

BOOST_AUTO_TEST_CASE(who_reads_a_record_whose_log_was_deleted_is_told_how_it_is_restored) {
  write_own_task(folder.path(), "{wall: 10m}");
  BOOST_TEST_REQUIRE(run({"run", "search.yaml", "--detach"}).exit == 0);
  const int process = status()["process"];
  for (int i = 0; i < 600 && status()["evaluations"] == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::kill(process, SIGKILL);
  BOOST_TEST(becomes("stopped"));
  BOOST_TEST_REQUIRE(fs::remove(folder / "runs/own/run.db-wal"));
  BOOST_TEST(contains(status()["lost"].get<std::string>(), "lacks recorded steps"));
  for (const char* command : {"status", "replay", "runs", "report"}) {
    const auto told = command == std::string_view("runs") ? run({command}) : run({command, "own"});
    BOOST_TEST(contains(told.out + told.err, "run.db lacks recorded steps"), command << ": " << told.err);
    BOOST_TEST(contains(told.out + told.err, "`cultivar resume`"), command << ": " << told.err);
  }
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_told_before_anything_is_started) {
  write_own_task(folder.path(), "{evaluations: 3}");
  BOOST_TEST(run({"run", "search.yaml", "--detach", "--set", "evaluation.depth=0"}).exit == 2);
  BOOST_TEST(!std::filesystem::exists(folder / "runs"));
  BOOST_TEST(run({"attach", "runs/own"}).exit == 2);
  BOOST_TEST(run({"stop", "runs/own"}).exit == 2);
  const auto unit = run({"run", "search.yaml", "--print-systemd"});
  BOOST_TEST(unit.exit == 0);
  BOOST_TEST(contains(unit.out, "ExecStart="));
  BOOST_TEST(!std::filesystem::exists(folder / "runs"));
}

BOOST_AUTO_TEST_CASE(a_search_that_ends_at_once_gives_its_exit_code_and_its_last_lines) {
  write_own_task(folder.path(), "{evaluations: 3}");
  for (const char* seed : {"plain", "blocked"})
    write_text(folder.path() / "rms_norm/seeds" / (std::string(seed) + ".cpp"),
               read_text(folder.path() / "rms_norm/seeds" / (std::string(seed) + ".cpp")) + "\n#error no\n");
  const auto ended = run({"run", "search.yaml", "--detach"});
  if (ended.exit == 0) {  // it had begun before it failed
    BOOST_TEST(becomes("failed"));
  } else {
    BOOST_TEST(ended.exit == 1);
    BOOST_TEST(contains(ended.err, "The search failed"), ended.err);
  }
  BOOST_TEST(contains(read_text(folder / "runs/own/search.log"), "The search failed"));
}

BOOST_AUTO_TEST_CASE(a_closed_terminal_does_not_end_a_search_under_nohup) {
  write_own_task(folder.path(), "{wall: 10m}");
  RunningCommand command({"sh", "-c", "trap '' HUP; exec " CULTIVAR_BIN_DIR "/cultivar run search.yaml"},
                         {.folder = folder.path(), .environment = {}, .deadline_s = 120.0});
  for (int i = 0; i < 600 && !std::filesystem::exists(folder / "runs/own/run.db"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  BOOST_TEST_REQUIRE(becomes("running"));
  command.signal(SIGHUP);
  command.signal(SIGHUP);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  BOOST_TEST(command.running());
  BOOST_TEST(status()["state"] == "running");
  BOOST_TEST(run({"stop", "own"}).exit == 0);
  BOOST_TEST(command.wait().exit == 130);
}

BOOST_AUTO_TEST_SUITE_END()
