// SPDX-License-Identifier: Apache-2.0
// Faults of a search that runs in a separate process: kill -9 at any moment, a full disk, a read-only folder,
// a second process.
//
//   tests-crash --run_test=search_process/kill_at_any_moment* -- 500      500 kills instead of 12
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "engine/search/search.hpp"
#include "engine/store/checkpoint.hpp"
#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/random.hpp"
#include "support/child_process.hpp"
#include "support/command.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;

namespace {

const std::atomic<bool> kNever{false};

Runtime runtime(double evaluate_s = 0.01) {
  Runtime s;
  s.installation.tasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks";
  s.evaluator = [evaluate_s](const Config&, const fs::path&) {
    Simulation simulation;
    simulation.compile_s = simulation.evaluate_s = evaluate_s;
    return std::make_unique<SimulatedEvaluator>(simulation);
  };
  return s;
}

std::string begin(const ScratchFolder& scratch, const std::string& evaluations) {
  const Config config =
      softmax_config(scratch.path() / "config", {"budget.evaluations=" + evaluations, "checkpoint.every=1s"});
  return told_by(begin_search(config, scratch.path() / "run", runtime(), {}, kNever));
}

// Kills a search that often, lets it go on, and compares its record before and after.
void kill_at_any_moment(const ScratchFolder& folder, int wanted, std::uint64_t number) {
  const fs::path run = folder.path() / "run", told = folder.path() / "told";
  std::int64_t judged = 0;
  int kills = 0;
  RandomStream stream = stream_of(11, "kills", number);
  // A judged individual must be the same after every later kill.
  std::vector<std::string> seen;
  for (int session = 0; session < wanted; ++session) {
    const pid_t pid = in_child(told, [&] {
      return session == 0 || !fs::exists(run / "run.db")
                 ? begin(folder, "100000")
                 : told_by(resume_search(run, {}, runtime(), {}, kNever));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + below(stream, 700)));
    BOOST_REQUIRE_MESSAGE(killed(pid), read_text(told));
    ++kills;
    if (!fs::exists(run / "run.db")) continue;  // killed before there was a record
    BOOST_TEST(damage_of(run / "run.db", true).empty());
    const auto record = Record::open(run);
    BOOST_REQUIRE(record);
    const Summary summary = summary_of(*record);
    BOOST_TEST(summary.state == "stopped");  // not "running": no process holds the lock
    BOOST_TEST(summary.evaluations >= judged);
    judged = summary.evaluations;
    std::size_t i = 0;
    record->each_individual([&](const IndividualRow& row) {
      std::string facts = row.individual.variant_id;
      if (row.state != IndividualState::proposed) {
        std::ostringstream all;
        all << facts << ' ' << static_cast<int>(row.state) << ' ' << row.individual.fitness << ' '
            << row.reason;
        facts = all.str();
      }
      if (i == seen.size()) seen.emplace_back();
      if (seen[i].find(' ') != std::string::npos)
        BOOST_TEST(seen[i] == facts);
      else
        BOOST_TEST(facts.starts_with(seen[i]));
      seen[i++] = facts;
    });
    BOOST_TEST(i == seen.size());
  }
  BOOST_TEST(judged > kills);
  BOOST_TEST_MESSAGE(kills << " kills, " << judged << " individuals judged");

  const std::string budget = "budget.evaluations=" + std::to_string(seen.size() + 10);
  wait_for(in_child(told, [&] { return told_by(resume_search(run, {budget}, runtime(), {}, kNever)); }));
  BOOST_TEST(read_text(told).find("evaluations is exhausted") != std::string::npos, read_text(told));
  const auto record = Record::open(run);
  BOOST_TEST(summary_of(*record).in_flight == 0);  // what the kills interrupted was evaluated
  wait_for(in_child(told, [&] { return told_by(replay(run, runtime())); }));
  BOOST_TEST(read_text(told) == "agrees");
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(search_process, ScratchFolder)

BOOST_AUTO_TEST_CASE(kill_at_any_moment_loses_nothing_that_was_recorded) {
  constexpr int most = 25;  // of one search, whose kernels are soon all tried
  for (int left = number_given(12); left > 0; left -= most) {
    const ScratchFolder folder;
    kill_at_any_moment(folder, std::min(left, most), static_cast<std::uint64_t>(left));
  }
}

BOOST_AUTO_TEST_CASE(a_full_disk_stops_the_search_cleanly_and_loses_nothing) {
  const fs::path run = path() / "run", told = path() / "told";
  wait_for(in_child(told, [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1'500'000, 1'500'000};  // no file may grow beyond: the write-ahead log meets it first
    setrlimit(RLIMIT_FSIZE, &limit);
    return begin(*this, "100000");
  }));
  const std::string text = read_text(told);
  BOOST_TEST(text.find("all recorded steps are safe") != std::string::npos, text);
  BOOST_TEST(damage_of(run / "run.db", true).empty());
  const std::int64_t judged = summary_of(*Record::open(run)).evaluations;
  BOOST_TEST(judged > 5);
  wait_for(in_child(told, [&] {
    return told_by(
        resume_search(run, {"budget.evaluations=" + std::to_string(judged + 30)}, runtime(), {}, kNever));
  }));
  BOOST_TEST(read_text(told).find("evaluations is exhausted") != std::string::npos, read_text(told));
  BOOST_TEST(summary_of(*Record::open(run)).evaluations >= judged + 30);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_is_said_at_once) {
  const fs::path told = path() / "told";
  fs::permissions(path(), fs::perms::others_all, fs::perm_options::add);
  wait_for(in_child(told, [&] { return begin(*this, "10"); }));
  BOOST_REQUIRE(read_text(told).find("evaluations is exhausted") != std::string::npos);
  // Root may write anywhere, so the child switches to the user nobody; otherwise permissions deny the write.
  for (const char* folder : {"run", "run/checkpoints", "run/submissions"})
    fs::permissions(path() / folder, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                                         fs::perms::others_exec);
  // The user nobody may have no access to the source tree.
  Runtime own = runtime();
  own.installation.tasks = path() / "tasks";
  fs::create_directory(path() / "tasks");
  fs::copy(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax", path() / "tasks" / "softmax",
           fs::copy_options::recursive);
  for (const bool fresh : {false, true}) {
    const fs::path answer = path() / (fresh ? "told-fresh" : "told-resume");
    std::ofstream(answer) << "";
    fs::permissions(answer, fs::perms::all);
    wait_for(in_child(answer, [&] {
      if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return std::string("cannot become nobody");
      if (!fresh) return told_by(resume_search(path() / "run", {"budget.evaluations=20"}, own, {}, kNever));
      const Config config = load_config(path() / "config" / "search.yaml", {}, own.installation);
      return told_by(begin_search(config, path() / "run" / "inner", own, {}, kNever));
    }));
    const std::string text = read_text(answer);
    BOOST_TEST(text.starts_with("error: "), text);
    BOOST_TEST(text.find("ermission") != std::string::npos, text);
  }
  fs::permissions(path() / "run", fs::perms::owner_all);
  for (const char* folder : {"run/checkpoints", "run/submissions"})
    fs::permissions(path() / folder, fs::perms::owner_all);
  BOOST_TEST(summary_of(*Record::open(path() / "run")).evaluations == 10);  // untouched
}

BOOST_AUTO_TEST_CASE(a_second_process_gets_the_first_ones_pid_and_may_still_submit) {
  const fs::path run = path() / "run", told = path() / "told";
  const pid_t pid = in_child(told, [&] { return begin(*this, "100000"); });
  for (int i = 0; i < 3000 && !(fs::exists(run / "run.db") && summary_of(*Record::open(run)).evaluations > 3);
       ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  BOOST_TEST(summary_of(*Record::open(run)).state == "running");
  const auto second = resume_search(run, {}, runtime(), {}, kNever);
  BOOST_REQUIRE(!second);
  BOOST_TEST(second.error().message.find("process " + std::to_string(pid)) != std::string::npos,
             second.error().message);

  BOOST_REQUIRE(submit_variant(run, softmax_source("softmax_submitted"), {}, "mine"));
  bool taken = false;
  for (int i = 0; i < 1000 && !taken; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    Record::open(run)->each_individual([&](const IndividualRow& row) {
      taken = taken ||
              (row.individual.descent.origin == Origin::submission && row.state != IndividualState::proposed);
    });
  }
  BOOST_TEST(taken);
  BOOST_TEST(killed(pid));
}

BOOST_AUTO_TEST_SUITE_END()
