// SPDX-License-Identifier: Apache-2.0
// Limits of the shell: children get the lower one, and messages name it.
#include "evaluators/system/memory_limit.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <functional>

#include "evaluators/system/process.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

// Limits cannot be raised again, so a process of its own has them. Returns what `work` says there.
std::string under(int resource, rlim_t soft, rlim_t hard, const std::function<std::string()>& work) {
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{soft, hard};
    std::string said = "setrlimit failed";
    if (::setrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0) said = work();
    ::_exit(::write(ends[1], said.data(), said.size()) < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(got));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return said;
}
std::string under(int resource, rlim_t limit, const std::function<std::string()>& work) {
  return under(resource, limit, limit, work);
}

std::string all_tight() {
  std::string text;
  for (const TightLimit& limit : tight_limits())
    text += (limit.fatal ? "fatal: " : "warning: ") + limit.text + "\n";
  return text;
}

constexpr std::size_t kGiB = std::size_t{1} << 30;

}  // namespace

BOOST_AUTO_TEST_SUITE(resource_limits)

BOOST_AUTO_TEST_CASE(a_child_gets_the_lower_of_the_limit_in_force_and_its_own) {
  const auto told = [](std::size_t wanted) {
    return [wanted] {
      ProcessOptions options;
      options.command = {"sh", "-c", "ulimit -v"};
      options.pipe_input = options.pipe_output = false;
      options.limits = {{RLIMIT_AS, wanted}};
      auto child = ChildProcess::spawn(options);
      if (!child) return child.error().message;
      child->wait(deadline_in(10.0));
      return child->captured();
    };
  };
  BOOST_TEST(under(RLIMIT_AS, 2 * kGiB, told(4 * kGiB)) == "2097152\n");
  BOOST_TEST(under(RLIMIT_AS, 2 * kGiB, told(kGiB)) == "1048576\n");
}

BOOST_AUTO_TEST_CASE(a_message_says_which_limit_it_was) {
  BOOST_TEST(limit_in_words(RLIMIT_AS, 4 * kGiB) == "4.0 GiB");
  BOOST_TEST(under(RLIMIT_AS, 3 * kGiB, [] { return limit_in_words(RLIMIT_AS, 4 * kGiB); }) ==
             "3.0 GiB (ulimit -v)");
  BOOST_TEST(under(RLIMIT_CPU, 40, [] { return limit_in_words(RLIMIT_CPU, 60); }) == "40 s (ulimit -t)");
  const std::string died = under(RLIMIT_CPU, 40, [] {
    ExitStatus status;
    status.signal = SIGKILL;
    status.user_s = 39.8;
    return status.describe();
  });
  BOOST_TEST(died ==
             "killed by SIGKILL, after the 40 s (ulimit -t) of processor time that this shell allows");
}

BOOST_AUTO_TEST_CASE(what_is_too_little_is_told_with_its_value) {
  BOOST_TEST(under(RLIMIT_NOFILE, 100, all_tight) ==
             "fatal: this shell allows 100 open files; Cultivar needs 128 (ulimit -n)\n");
  BOOST_TEST(contains(under(RLIMIT_CPU, 40, all_tight), "warning: this shell allows each process 40 s"));
  BOOST_TEST(contains(under(RLIMIT_FSIZE, 10 << 20, all_tight),
                      "warning: this shell allows files of at most 10 MiB"));
  BOOST_TEST(
      contains(under(RLIMIT_AS, kGiB / 2, all_tight), "fatal: this shell allows each process 512 MiB"));
  BOOST_TEST(under(RLIMIT_AS, 4 * kGiB, all_tight) == "");  // compilers have enough
}

BOOST_AUTO_TEST_CASE(a_soft_limit_on_open_files_is_raised) {
  const auto raised = [] {
    raise_open_files();
    return std::to_string(limit_in_force(RLIMIT_NOFILE).value_or(0));
  };
  BOOST_TEST(under(RLIMIT_NOFILE, 100, 300, raised) == "300");
  BOOST_TEST(under(RLIMIT_NOFILE, 100, raised) == "100");
}

BOOST_AUTO_TEST_CASE(a_child_can_start_with_few_open_files) {
  BOOST_TEST(under(RLIMIT_NOFILE, 60, [] {
               ProcessOptions options;
               options.command = {"echo", "started"};
               options.pipe_input = options.pipe_output = false;
               options.descriptors = {0, 1};
               auto child = ChildProcess::spawn(options);
               if (!child) return child.error().message;
               child->wait(deadline_in(10.0));
               return child->captured();
             }) == "started\n");
}

BOOST_AUTO_TEST_SUITE_END()
