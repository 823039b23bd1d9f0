// SPDX-License-Identifier: Apache-2.0
// A search whose process dies at the N-th change that SQLite makes to a file, for many N.
//
//   tests-crash --run_test=write_boundary_kill -- 1      at every change instead of every 7th
#include <fcntl.h>
#include <unistd.h>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "engine/search/search.hpp"
#include "engine/store/checkpoint.hpp"
#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"
#include "support/child_process.hpp"
#include "support/command.hpp"
#include "support/killing_vfs.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;

namespace {

const std::atomic<bool> kNever{false};
constexpr const char* kBudget = "budget.evaluations=6";

// Each result is written to `results` when the search says that it is recorded.
SearchCallbacks telling(int results) {
  SearchCallbacks callbacks;
  callbacks.event = [results](const Event& event) {
    if (event.kind != "measured" && event.kind != "rejected") return;
    std::ostringstream line;
    line << event.individual << ' ' << event.kind << ' ' << event.text << '\n';
    (void)!::write(results, line.str().data(), line.str().size());
  };
  return callbacks;
}

Runtime runtime() {
  Runtime s;
  s.installation.tasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks";
  s.evaluator = [](const Config&, const fs::path&) {
    return std::make_unique<SimulatedEvaluator>(Simulation{});
  };
  return s;
}

// Begins a search, or resumes it if there is a record, and dies at that boundary. Reports the boundaries that
// it passed.
std::string search(const fs::path& folder, std::int64_t at, bool torn) {
  die_at_boundary(at, torn);
  const int results = ::open((folder / "results").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const auto outcome = fs::exists(folder / "run" / "run.db")
                           ? resume_search(folder / "run", {}, runtime(), telling(results), kNever)
                           : begin_search(softmax_config(folder / "config", {kBudget, "checkpoint.every=1h"}),
                                          folder / "run", runtime(), telling(results), kNever);
  return std::to_string(boundaries_passed()) + ' ' + told_by(outcome);
}

// By individual; a line that the kill cut is not counted.
std::map<IndividualId, std::string> told_results(const fs::path& folder) {
  std::map<IndividualId, std::string> results;
  std::istringstream lines(read_text(folder / "results"));
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const bool fresh = results.emplace(std::atoll(line.c_str()), line.substr(line.find(' ') + 1)).second;
    BOOST_TEST(fresh, "the result of an individual was recorded twice: " << line);
  }
  return results;
}

// What was told to be recorded is in the record, once.
void require_recorded(const fs::path& folder, const std::string& when) {
  const fs::path database = folder / "run" / "run.db";
  const auto told = told_results(folder);
  if (!fs::exists(database)) {
    BOOST_TEST(told.empty(), when);
    return;
  }
  BOOST_TEST(damage_of(database, true) == "", when);
  const auto record = Record::open(folder / "run");
  BOOST_REQUIRE_MESSAGE(record, when);
  std::map<IndividualId, int> judged;
  record->each_decision(
      [&](const DecisionRow& row) { judged[row.individual] += row.kind == DecisionKind::judge; });
  for (const auto& [id, times] : judged)
    BOOST_TEST(times <= 1, when << ": judged " << times << " times: " << id);
  std::map<IndividualId, std::string> events;
  for (const EventRow& row : record->events(1000))
    if (row.kind == "measured" || row.kind == "rejected") events[row.individual] = row.kind + ' ' + row.text;
  for (const auto& [id, result] : told) {
    BOOST_TEST(judged[id] == 1, when << ": individual " << id << " was told and is lost");
    BOOST_TEST(events[id] == result, when);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(write_boundary_kill)

BOOST_AUTO_TEST_CASE(a_kill_at_any_write_of_the_record_loses_and_doubles_nothing) {
  std::int64_t all = 0;
  {
    const ScratchFolder whole;
    wait_for(in_child(whole.path() / "told", [&] { return search(whole.path(), 0, false); }));
    const std::string told = read_text(whole.path() / "told");
    BOOST_REQUIRE(told.find("evaluations is exhausted") != std::string::npos);
    BOOST_REQUIRE(told_results(whole.path()).size() == 6U);
    all = std::atoll(told.c_str());
  }
  BOOST_REQUIRE(all > 100);
  int kills = 0;
  for (std::int64_t at = 1; at <= all; at += number_given(7)) {
    const ScratchFolder folder;
    const fs::path told = folder.path() / "told";
    const std::string when = "killed at change " + std::to_string(at) + " of " + std::to_string(all);
    const int status = wait_for(in_child(told, [&] { return search(folder.path(), at, at % 2 == 0); }));
    kills += WIFSIGNALED(status);
    require_recorded(folder.path(), when);
    wait_for(in_child(told, [&] { return search(folder.path(), 0, false); }));
    BOOST_TEST(read_text(told).find("evaluations is exhausted") != std::string::npos,
               when << ": " << read_text(told));
    require_recorded(folder.path(), when + ", resumed");
    BOOST_TEST(summary_of(*Record::open(folder.path() / "run")).evaluations == 6, when);
    wait_for(in_child(told, [&] { return told_by(replay(folder.path() / "run", runtime())); }));
    BOOST_TEST(read_text(told) == "agrees", when);
  }
  BOOST_TEST_MESSAGE(kills << " kills among " << all << " changes");
  BOOST_TEST(kills > 2);
}

BOOST_AUTO_TEST_SUITE_END()
