// SPDX-License-Identifier: Apache-2.0
// The log of a search without a terminal: rotated, and followed across rotations.
#include "engine/cli/detached_search.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "support/command.hpp"

namespace fs = std::filesystem;
using namespace cultivar;
using namespace cultivar::testing;

namespace {

// Prints numbered lines from a process of its own, whose output is the log.
pid_t print(const fs::path& file, int lines, unsigned pause_us) {
  std::fflush(nullptr);  // the child would print it again
  const pid_t pid = fork();
  if (pid != 0) return pid;
  SearchLog log(file, 2000);
  for (int i = 0; i < lines; ++i) {
    std::fprintf(i % 2 ? stdout : stderr, "line %d of the search\n", i);
    std::fflush(stdout);
    log.rotate_if_large();
    usleep(pause_us);
  }
  _exit(0);
}

bool runs(pid_t pid) {
  return waitpid(pid, nullptr, WNOHANG) == 0;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(search_log, TemporaryFolder)

BOOST_AUTO_TEST_CASE(its_size_is_bounded_and_the_newest_lines_are_in_the_file) {
  const fs::path file = path() / "run" / "search.log";
  waitpid(print(file, 2000, 0), nullptr, 0);
  std::uintmax_t bytes = 0;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(file.parent_path())) {
    bytes += entry.file_size();
    ++files;
  }
  BOOST_TEST(files == SearchLog::kKept + 1);
  BOOST_TEST(bytes < 4U * 2100U);
  BOOST_TEST(read_text(file).ends_with("line 1999 of the search\n"));
  BOOST_TEST(read_text(file.string() + ".1").ends_with("search\n"));  // no line is torn
}

BOOST_AUTO_TEST_CASE(lines_that_did_not_fit_on_the_disk_leave_a_mark) {
  const fs::path file = path() / "search.log";
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);
    SearchLog log(file);
    const auto tell = [&](const char* line) {
      std::fputs(line, stderr);
      log.rotate_if_large();
    };
    tell("before\n");
    const rlimit full{7, RLIM_INFINITY}, free{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &full);
    tell("lost\n");
    tell("lost\n");
    setrlimit(RLIMIT_FSIZE, &free);
    tell("");
    tell("after\n");
    _exit(0);
  }
  waitpid(pid, nullptr, 0);
  const std::string text = read_text(file);
  BOOST_TEST(text.starts_with("before\n\n... lines are missing here"), text);
  BOOST_TEST(text.ends_with(" ...\nafter\n"), text);
  BOOST_TEST(text.find("missing") == text.rfind("missing"), text);
}

BOOST_AUTO_TEST_CASE(who_follows_it_sees_every_line_once_across_rotations) {
  const fs::path file = path() / "search.log";
  for (const unsigned pause_us : {0U, 2000U}) {  // all three rotations between two reads; one or two
    write_text(file, "first\nsecond\nthird\n");
    pid_t pid = -1;
    std::vector<std::string> seen;
    follow_log(
        file, 2,
        [&](const std::string& line) {
          if (seen.empty()) pid = print(file, 300, pause_us);  // the log is open: nothing is before its end
          seen.push_back(line);
        },
        [&] { return runs(pid); });
    BOOST_REQUIRE(seen.size() == 302);  // 7 KB, of which one file and three rotated ones are kept
    BOOST_TEST(seen[0] == "second");
    for (int i = 0; i < 300; ++i) BOOST_TEST(seen[i + 2] == "line " + std::to_string(i) + " of the search");
    BOOST_TEST(fs::exists(file.string() + ".3"));
  }
}

BOOST_AUTO_TEST_CASE(only_the_end_of_a_long_log_is_shown) {
  const fs::path file = path() / "search.log";
  std::string text;
  for (int i = 0; i < 9000; ++i) text += "earlier line " + std::to_string(i) + "\n";
  write_text(file, text + "no line end");
  std::vector<std::string> seen;
  const auto show = [&](const std::string& line) { seen.push_back(line); };
  follow_log(file, 2, show, [] { return false; });
  BOOST_TEST(seen == (std::vector<std::string>{"earlier line 8998", "earlier line 8999", "no line end"}),
             boost::test_tools::per_element());
  seen.clear();
  write_text(file, "one\ntwo\n");
  follow_log(file, 20, show, [] { return false; });
  BOOST_TEST(seen == (std::vector<std::string>{"one", "two"}), boost::test_tools::per_element());
  follow_log(path() / "missing", 20, show, [] { return false; });
  BOOST_TEST(seen.size() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
