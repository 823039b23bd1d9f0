// SPDX-License-Identifier: Apache-2.0
// What commands print on a terminal of 80 columns, on one that cannot move its cursor, and into a pipe.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/synthetic_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Terminal {
  TemporaryFolder folder;
  std::string locale = "C.UTF-8", kind = "xterm";

  std::vector<std::string> command(const std::string& words, int columns) const {
    return {"script", "-qec",
            fmt::format("stty rows 40 cols {}; {}/cultivar {}", columns, CULTIVAR_BIN_DIR, words),
            "/dev/null"};
  }
  CommandOptions options() const {
    CommandOptions all;
    all.folder = folder.path();
    all.environment = {{"LC_ALL", locale}, {"TERM", kind}, {"NO_COLOR", "1"}};
    return all;
  }
  std::string shown(const std::string& words, int columns = 80) const {
    std::string text = cultivar::testing::run_command(command(words, columns), options()).out;
    std::erase(text, '\r');
    return text;
  }
  // Of a command that goes on: what it printed until these words were there.
  std::string shown_until(const std::vector<std::string>& program, const std::string& words) const {
    RunningCommand running(program, options());
    for (int i = 0; i < 600 && running.running() && running.out().find(words) == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return running.out();
  }
};

std::size_t columns_of(const std::string& line) {  // bytes that do not continue a UTF-8 character
  return static_cast<std::size_t>(std::count_if(
      line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Empty, or the first line that is too long and has a space at which it could have been broken.
std::string unbroken(const std::string& text, std::size_t columns) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::size_t begin = std::min(line.find_first_not_of(" `|-"), line.size());
    if (columns_of(line) > columns && line.find(' ', begin) != std::string::npos) return line;
  }
  return "";
}

bool ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

boost::test_tools::assertion_result has_script(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result found(
      cultivar::testing::run_command({"sh", "-c", "command -v script"}).exit == 0);
  found.message() << "script (bsdutils) is not installed";
  return found;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(terminal, Terminal, *boost::unit_test::precondition(has_script))

BOOST_AUTO_TEST_CASE(every_command_keeps_words_whole_at_eighty_columns) {
  write_synthetic_run(folder / "runs" / "one", {});
  for (const char* which : {"C.UTF-8", "C"}) {
    locale = which;
    for (const char* words :
         {"status one", "runs", "show one best", "show one best --source", "lineage one", "lineage one best",
          "report one --csv", "tasks", "tasks attention_forward", "gc one", "run no_such_file.yaml"})
      for (const int columns : {80, 100}) {
        const std::string text = shown(words, columns);
        BOOST_TEST(text.size() > 20U, words);
        BOOST_TEST(unbroken(text, static_cast<std::size_t>(columns)) == "", words);
      }
  }
  BOOST_TEST(unbroken(shown("--help"), 80) == "");
  for (const auto& command : facts(cultivar_in(folder.path(), {"completion", "--json"}))) {
    const std::string name = command["name"];
    BOOST_TEST(unbroken(shown(name + " --help"), 80) == "", name);
  }
}

BOOST_AUTO_TEST_CASE(a_finished_run_says_when_and_has_nothing_in_flight) {
  write_synthetic_run(folder / "runs" / "one", {});
  for (const char* words : {"status one", "status one --watch"}) {
    const std::string text = shown(words);
    for (const char* line : {"  began       20", "  best found  20", "  ended       20"})
      BOOST_TEST(contains(text, line), text);
    BOOST_TEST(!contains(text, "in flight"), text);
    BOOST_TEST(!contains(text, "\033"), text);
  }
}

BOOST_AUTO_TEST_CASE(a_running_search_is_redrawn_only_where_the_cursor_can_be_moved) {
  SyntheticRun run;
  run.goes_on = [&](std::int64_t individuals) {
    if (individuals < run.individuals / 2) return true;
    for (const char* which : {"C.UTF-8", "C"}) {
      locale = which;
      const std::string text = shown_until(command("status one --watch", 80), "\033[J");
      BOOST_TEST(contains(text, "\033[H"), text);
      BOOST_TEST(contains(text, "evaluated   "), text);
      BOOST_TEST(ascii(text) == (locale == "C"), text);
    }
    kind = "dumb";
    const std::string plain = shown_until(command("status one --watch", 80), "device time");
    BOOST_TEST(contains(plain, "  evaluated   "), plain);
    BOOST_TEST(!contains(plain, "\033"), plain);
    const std::string piped = shown_until(cultivar_command({"status", "one", "--watch"}), "device time");
    BOOST_TEST(contains(piped, "  evaluated   "), piped);
    BOOST_TEST(!contains(piped, "\033"), piped);
    return false;
  };
  write_synthetic_run(folder / "runs" / "one", run);
}

BOOST_AUTO_TEST_CASE(an_interrupt_ends_a_view_at_once_even_while_it_waits_for_the_record) {
  // The locks of all readers of a write-ahead log, which SQLite awaits for ten seconds.
  constexpr const char* kLock =
      "import fcntl, time; f = open('runs/one/run.db-shm', 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 5, 123); "
      "print('locked', flush=True); time.sleep(60)";
  const auto until = [](double most_s, const std::function<bool()>& holds) {
    const auto begun = std::chrono::steady_clock::now();
    const auto passed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    };
    while (!holds() && passed() < most_s) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return passed();
  };
  SyntheticRun run;
  run.goes_on = [&](std::int64_t individuals) {
    if (individuals < run.individuals / 2) return true;
    RunningCommand watching(cultivar_command({"status", "one", "--watch"}), options());
    until(60.0, [&] { return contains(watching.out(), "device time"); });
    RunningCommand lock({"python3", "-c", kLock}, options());
    until(60.0, [&] { return contains(lock.out(), "locked"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // the next reading has begun
    BOOST_TEST_REQUIRE(watching.running());
    watching.signal(SIGINT);
    BOOST_TEST(until(20.0, [&] { return !watching.running(); }) < 4.0);
    BOOST_TEST(watching.wait().exit == 0);
    return false;
  };
  write_synthetic_run(folder / "runs" / "one", run);
}

BOOST_AUTO_TEST_CASE(event_files_are_read_by_other_programs) {
  write_synthetic_run(folder / "runs" / "one", {});
  BOOST_TEST(cultivar_in(folder.path(), {"report", "one", "--tensorboard", "events"}).exit == 0);
  const auto read = [&](const std::string& python, const char* with) {
    const auto result = cultivar::testing::run_command(
        {python, std::string(CULTIVAR_SOURCE_DIR) + "/tests/e2e/read_events.py", with,
         (folder / "events").string()},
        {.deadline_s = 120.0});
    BOOST_REQUIRE_MESSAGE(result.exit == 0, result.out + result.err);
    return nlohmann::json::parse(result.out);
  };
  const auto scalars = read("python3", "struct");
  const auto status = facts(cultivar_in(folder.path(), {"status", "one", "--json"}));
  BOOST_TEST(scalars["evaluations/measured"].back()[1] == status["measured"]);
  BOOST_TEST(scalars["evaluations/measured"].back()[0] == status["evaluations"]);
  BOOST_TEST(scalars["best/fitness"].size() == status["promotions"].get<std::size_t>());
  BOOST_TEST(scalars["best/over_first_seed"].back()[1].get<double>() > 1.0);
  for (const auto& [stage, count] : status["rejected"].items())
    BOOST_TEST(scalars["evaluations/rejected/" + stage].back()[1] == count, stage);
  const char* const python = std::getenv("CULTIVAR_PYTHON");
  if (!python || cultivar::testing::run_command({python, "-c", "import tensorboard"}).exit != 0)
    BOOST_TEST_MESSAGE("CULTIVAR_PYTHON names no interpreter with tensorboard: read by struct only");
  else
    BOOST_TEST((read(python, "tensorboard") == scalars));
}

BOOST_AUTO_TEST_SUITE_END()
