// SPDX-License-Identifier: Apache-2.0
#include "support/child_process.hpp"

#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace cultivar::testing {

pid_t in_child(const std::filesystem::path& told, const std::function<std::string()>& work) {
  const pid_t pid = fork();
  BOOST_REQUIRE(pid >= 0);
  if (pid != 0) return pid;
  std::string text;
  try {
    text = work();
  } catch (const std::exception& e) {
    text = std::string("exception: ") + e.what();
  }
  std::ofstream(told) << text;
  _exit(0);
}

std::optional<int> ended(pid_t pid) {
  int status = 0;
  return waitpid(pid, &status, WNOHANG) == pid ? std::optional(status) : std::nullopt;
}

std::string status_text(int status) {
  return WIFSIGNALED(status) ? "ended by signal " + std::to_string(WTERMSIG(status))
                             : "ended with code " + std::to_string(WEXITSTATUS(status));
}

int wait_for(pid_t pid, double most_s, const std::function<std::string()>& story) {
  for (int i = 0; i < static_cast<int>(100 * most_s); ++i) {
    if (const auto status = ended(pid)) return *status;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  BOOST_ERROR("the process did not end within " << most_s << " s" << (story ? "\n" + story() : ""));
  int status = 0;
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  return status;
}

bool killed(pid_t pid) {
  kill(pid, SIGKILL);
  return WIFSIGNALED(wait_for(pid));
}

int number_given(int otherwise) {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  return suite.argc > 1 ? std::max(1, std::atoi(suite.argv[1])) : otherwise;
}

std::string told_by(const Expected<Outcome>& outcome) {
  return outcome ? outcome->reason : "error: " + outcome.error().message;
}

std::string told_by(const Expected<ReplayReport>& report) {
  if (!report) return "error: " + report.error().message;
  return report->differences.empty() ? "agrees" : report->differences.front();
}

}  // namespace cultivar::testing
