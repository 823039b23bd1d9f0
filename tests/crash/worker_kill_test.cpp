// SPDX-License-Identifier: Apache-2.0
// kill -9 of the processes of a search on real workers, at any instant: measuring and compile workers, their
// guardians, compilers, and the processes of kernels. None of it is a candidate's fault.
//
//   tests-crash --run_test=worker_kill -- 500      500 kills instead of 12
// long: 160 s, evaluators/worker, evaluators/system
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "engine/search/search.hpp"
#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/random.hpp"
#include "support/child_process.hpp"
#include "support/command.hpp"
#include "support/own_task.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;

namespace {

std::atomic<bool> stopped{false};
constexpr double kLongest = 300.0;  // seconds, for a few real evaluations

Runtime runtime(const fs::path& folder) {
  Runtime s;
  s.installation.tasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks";
  s.programs = CULTIVAR_BIN_DIR;
  s.cache = folder / "cache";
  return s;
}

// A small task; its seed gets a tunable that makes enough different kernels for the long form.
void write_search(const fs::path& folder) {
  write_own_task(folder, "{evaluations: 100000}");
  const fs::path seed = folder / "rms_norm" / "seeds" / "blocked.cpp";
  std::string text = read_text(seed);
  const auto replace = [&](const std::string& old, const std::string& by) {
    BOOST_REQUIRE(text.find(old) != std::string::npos);
    text.replace(text.find(old), old.size(), by);
  };
  replace("  TEAM: ",
          "  SALT: {values: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], default: 1}\n  TEAM: ");
  replace("double sum = 0.0;", "double sum = SALT * 1e-300;");
  write_text(seed, text);
}

std::string session(const fs::path& folder, std::vector<std::string> settings) {
  std::signal(SIGINT, [](int) { stopped = true; });
  const fs::path run = folder / "run";
  if (fs::exists(run / "run.db")) return told_by(resume_search(run, settings, runtime(folder), {}, stopped));
  settings.insert(settings.end(), {"evaluation.cores=1", "evaluation.patience=10m"});
  const Config config = load_config(folder / "search.yaml", settings, runtime(folder).installation);
  return told_by(begin_search(config, run, runtime(folder), {}, stopped));
}

struct Process {
  pid_t pid = 0, parent = 0;
  std::string name;
};

// Empty for one that has ended meanwhile.
Process process_at(const fs::path& folder) {
  std::ifstream in(folder / "stat");
  std::string text;
  std::getline(in, text);
  const auto open = text.find('('), close = text.rfind(')');
  if (close == std::string::npos) return {};
  char state = 0;
  Process found{std::atoi(text.c_str()), 0, text.substr(open + 1, close - open - 1)};
  std::sscanf(text.c_str() + close + 1, " %c %d", &state, &found.parent);
  return state == 'Z' ? Process{} : found;
}

// All processes below this one.
std::vector<Process> processes_under(pid_t root) {
  std::vector<Process> all, found;
  for (const auto& entry : fs::directory_iterator("/proc"))
    if (entry.path().filename().string().find_first_not_of("0123456789") == std::string::npos)
      if (const Process process = process_at(entry.path()); process.pid != 0) all.push_back(process);
  std::set<pid_t> known{root};
  for (std::size_t before = 0; before != known.size();) {
    before = known.size();
    for (const Process& process : all)
      if (known.contains(process.parent) && known.insert(process.pid).second) found.push_back(process);
  }
  return found;
}

// The processes below the search, and the last events of its log.
std::string story(const fs::path& run, pid_t search) {
  std::string text = "its processes:";
  for (const Process& process : processes_under(search))
    text += " " + process.name + "/" + std::to_string(process.pid);
  text += "\nthe end of its log:\n";
  if (const auto record = Record::open(run))
    for (const EventRow& event : record->events(40))
      text += std::to_string(event.at) + " " + event.kind + " #" + std::to_string(event.individual) + " " +
              event.text + "\n";
  return text;
}

std::string words(const IndividualRow& row, const Evaluation& evaluation) {
  return "#" + std::to_string(row.individual.id) + " " + std::string(name_of(evaluation.stage)) + ": " +
         evaluation.reason + "\n" + evaluation.diagnostics;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(worker_kill, ScratchFolder)

BOOST_AUTO_TEST_CASE(no_kernel_is_rejected_for_a_process_that_somebody_killed) {
  const fs::path run = path() / "run", told = path() / "told";
  const int wanted = number_given(12);
  write_search(path());
  const pid_t search = in_child(told, [&] { return session(path(), {"budget.evaluations=100000"}); });
  RandomStream stream = stream_of(17, "kills", 0);
  std::map<std::string, int> killed_by_name;
  const auto draw = [&](std::size_t n) { return below(stream, n); };
  int kills = 0;
  auto progress = std::chrono::steady_clock::now();
  // A result at least for each ten kills, or it would be a search without workers.
  for (std::int64_t judged = -1; kills < wanted;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + draw(1000)));
    if (const auto status = ended(search))
      BOOST_FAIL("the search " << status_text(*status) << ": " << read_text(told) << "\n"
                               << story(run, search));
    const std::int64_t now = fs::exists(run / "run.db") ? summary_of(*Record::open(run)).evaluations : -1;
    if (now != judged) progress = std::chrono::steady_clock::now();
    if (now < 1 || (kills % 10 == 9 && now == judged)) {
      if (std::chrono::steady_clock::now() - progress > std::chrono::duration<double>(kLongest)) {
        const std::string found = story(run, search);
        killed(search);
        BOOST_FAIL("no result in " << kLongest << " s\n" << found);
      }
      continue;
    }
    judged = now;
    // A kind of process first, so that each is met.
    std::map<std::string, std::vector<Process>> kinds;
    for (const Process& process : processes_under(search)) kinds[process.name].push_back(process);
    if (kinds.empty()) continue;
    const auto& kind = std::next(kinds.begin(), static_cast<std::ptrdiff_t>(draw(kinds.size())))->second;
    const Process& victim = kind[draw(kind.size())];
    if (process_at("/proc/" + std::to_string(victim.pid)).name != victim.name) continue;
    if (::kill(victim.pid, SIGKILL) != 0) continue;
    ++kills;
    ++killed_by_name[victim.name];
    if (kills % 50 == 0) BOOST_TEST_MESSAGE(kills << " kills, " << now << " individuals judged");
  }
  ::kill(search, SIGINT);
  wait_for(search, kLongest, [&] { return story(run, search); });
  BOOST_TEST(read_text(told).find("interrupted") != std::string::npos, read_text(told));
  for (const auto& [name, times] : killed_by_name) BOOST_TEST_MESSAGE(times << " times " << name);

  // What met a kill last is evaluated without one.
  const auto before = summary_of(*Record::open(run)).evaluations;
  // Few comparisons: each takes ten seconds and more on a busy machine, and any number may be waiting.
  const std::vector<std::string> short_one{"budget.evaluations=" + std::to_string(before + 3),
                                           "budget.last_comparisons=2"};
  const pid_t second = in_child(told, [&] { return session(path(), short_one); });
  wait_for(second, kLongest, [&] { return story(run, second); });
  BOOST_TEST(read_text(told).find("evaluations is exhausted") != std::string::npos, read_text(told));
  const auto record = Record::open(run);
  BOOST_TEST(summary_of(*record).in_flight == 0);
  std::map<IndividualId, int> judged;
  record->each_decision(
      [&](const DecisionRow& row) { judged[row.individual] += row.kind == DecisionKind::judge; });
  int measured = 0, rejected = 0;
  record->each_individual([&](const IndividualRow& row) {
    BOOST_TEST(judged[row.individual.id] == (row.state == IndividualState::proposed ? 0 : 1));
    measured += row.state == IndividualState::measured;
    const bool refused = row.state == IndividualState::rejected && row.individual.duplicate_of == 0;
    rejected += refused;
    if (refused) BOOST_ERROR("rejected: " << words(row, *record->evaluation(row.individual.id)));
    if (row.expelled) BOOST_ERROR("expelled: " << words(row, *record->confirmation(row.individual.id)));
  });
  BOOST_TEST(measured > 3);
  BOOST_TEST_MESSAGE(kills << " kills: " << measured << " measured, " << rejected << " rejected");
  wait_for(in_child(told, [&] { return told_by(replay(run, runtime(path()))); }));
  BOOST_TEST(read_text(told) == "agrees");
}

BOOST_AUTO_TEST_SUITE_END()
