// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/process.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

using namespace cultivar;
using namespace std::chrono_literals;

namespace {

ChildProcess shell(const std::string& script, ProcessOptions options = {}) {
  options.command = {"sh", "-c", script};
  auto child = ChildProcess::spawn(options);
  BOOST_REQUIRE_MESSAGE(child, (child ? std::string() : child.error().message));
  return std::move(*child);
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

bool gone_within(pid_t pid, std::chrono::milliseconds limit) {
  for (const auto end = Clock::now() + limit; Clock::now() < end; std::this_thread::sleep_for(5ms)) {
    if (::kill(pid, 0) != 0) return true;
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    if (text.empty() || text.find(") Z") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(process)

// Ending a search with `pkill -f "cultivar run x.yaml"` must not also end the guardians of its programs.
BOOST_AUTO_TEST_CASE(a_guardian_has_a_command_line_of_its_own_and_the_program_keeps_its_arguments) {
  const auto words_of = [](pid_t pid, const std::string& what) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/" + what);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  ProcessOptions options;
  options.guarded = true;
  auto child = shell("echo $$; read word; exit 3", options);
  char buffer[32] = {};
  BOOST_TEST_REQUIRE(::read(child.output(), buffer, sizeof buffer - 1) > 0);
  const pid_t program = std::atoi(buffer), guardian = child.pid();
  BOOST_TEST_REQUIRE(program != guardian);
  const std::string line = words_of(guardian, "cmdline"), ours = words_of(::getpid(), "cmdline");
  BOOST_TEST(line.substr(0, line.find('\0')) == "process-guard");
  BOOST_TEST(line.find_first_not_of('\0', line.find('\0')) ==
             std::string::npos);                                   // nothing of ours behind it
  BOOST_TEST(ours.find("tests-evaluators") != std::string::npos);  // which stays as it was
  BOOST_TEST(words_of(guardian, "comm") == "process-guard\n");
  BOOST_TEST(words_of(program, "cmdline").find("read word") != std::string::npos);
  child.close_input();
  const auto* status = child.wait(deadline_in(5));
  BOOST_REQUIRE(status);
  BOOST_TEST(status->code == 3);
}

// srun, for example, ends its job then; if it is killed, the job goes on without it.
BOOST_AUTO_TEST_CASE(a_guarded_program_with_time_to_say_goodbye_may_end_what_it_started_elsewhere) {
  ProcessOptions options;
  options.guarded = true;
  options.goodbye_s = 5.0;
  auto polite = shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done", options);
  char buffer[32] = {};
  BOOST_TEST_REQUIRE(::read(polite.output(), buffer, sizeof buffer - 1) > 0);
  polite.kill();
  BOOST_REQUIRE(polite.wait(deadline_in(4)));
  BOOST_TEST(read_all(polite.output()) == "bye\n");

  options.goodbye_s = 0.3;
  auto deaf = shell("trap '' TERM; echo ready; while :; do sleep 0.02; done", options);
  BOOST_TEST_REQUIRE(::read(deaf.output(), buffer, sizeof buffer - 1) > 0);
  const auto begin = Clock::now();
  deaf.kill();
  BOOST_REQUIRE(deaf.wait(deadline_in(5)));
  BOOST_TEST((Clock::now() - begin >= 300ms));
}

BOOST_AUTO_TEST_CASE(input_output_errors_and_the_exit_code_come_through) {
  auto child = shell("read word; echo got $word; echo bad >&2; exit 3");
  BOOST_TEST(::write(child.input(), "seed\n", 5) == 5);
  BOOST_TEST(read_all(child.output()) == "got seed\n");
  const auto* status = child.wait(deadline_in(5));
  BOOST_REQUIRE(status);
  BOOST_TEST(status->code == 3);
  BOOST_TEST(status->describe() == "exited with 3");
  BOOST_TEST(child.captured() == "bad\n");
}

BOOST_AUTO_TEST_CASE(a_signal_is_named) {
  auto child = shell("kill -SEGV $$");
  const auto* status = child.wait(deadline_in(5));
  BOOST_REQUIRE(status);
  BOOST_TEST(status->describe() == "killed by SIGSEGV");
}

BOOST_AUTO_TEST_CASE(a_missing_program_or_folder_is_an_error_that_names_it) {
  const auto missing = ChildProcess::spawn({.command = {"no-such-program"}});
  BOOST_REQUIRE(!missing);
  BOOST_TEST(missing.error().doing == "start no-such-program");
  const auto nowhere = ChildProcess::spawn({.command = {"sh"}, .folder = "/no/such/folder"});
  BOOST_REQUIRE(!nowhere);
  BOOST_TEST(nowhere.error().message.find("chdir") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(gigabytes_on_stderr_are_drained_and_only_head_and_tail_are_kept) {
  ProcessOptions options;
  options.captured_bytes = 1000;
  auto child = shell("echo first >&2; head -c 1000000000 /dev/zero >&2; echo last >&2", options);
  BOOST_REQUIRE(child.wait(deadline_in(60)));
  const std::string text = child.captured();
  BOOST_TEST(text.size() < 1200u);
  BOOST_TEST(text.starts_with("first\n"));
  BOOST_TEST(text.ends_with("last\n"));
  BOOST_TEST(text.find("bytes omitted") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_whole_group_dies_at_the_deadline) {
  auto child = shell("sleep 100 & echo $!; wait");
  std::string digits(16, '\0');
  digits.resize(
      static_cast<std::size_t>(std::max<ssize_t>(0, ::read(child.output(), digits.data(), digits.size()))));
  const pid_t grandchild = std::stoi(digits);
  BOOST_TEST(!child.wait_or_kill(deadline_in(0.05)));
  BOOST_REQUIRE(child.poll());
  BOOST_TEST(child.poll()->signal == SIGKILL);
  BOOST_TEST(gone_within(grandchild, 2s));
}

BOOST_AUTO_TEST_CASE(what_a_child_leaves_behind_dies_with_it) {
  auto child = shell("sleep 100 & echo $!");
  const pid_t grandchild = std::stoi(read_all(child.output()).substr(0, 12).c_str());
  BOOST_REQUIRE(child.wait(deadline_in(5)));
  BOOST_TEST(gone_within(grandchild, 2s));
}

BOOST_AUTO_TEST_CASE(children_outlive_the_thread_that_spawned_them_and_die_with_the_process) {
  std::optional<ChildProcess> kept;
  std::thread([&] { kept = shell("exec sleep 100"); }).join();
  std::this_thread::sleep_for(50ms);
  BOOST_TEST(!kept->poll());

  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    auto child = ChildProcess::spawn({.command = {"sleep", "100"}});
    const pid_t pid = child ? child->pid() : 0;
    if (::write(ends[1], &pid, sizeof pid) < 0) ::_exit(1);
    ::pause();
  }
  pid_t orphan = 0;
  BOOST_REQUIRE(::read(ends[0], &orphan, sizeof orphan) == sizeof orphan);
  BOOST_REQUIRE(orphan > 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  BOOST_TEST(gone_within(orphan, 2s));
  ::close(ends[0]);
  ::close(ends[1]);
}

BOOST_AUTO_TEST_CASE(only_the_descriptors_that_were_named_are_inherited) {
  const int secret = ::open("/dev/null", O_RDONLY);  // not close-on-exec
  const int passed = ::memfd_create("passed", 0);
  BOOST_REQUIRE(::write(passed, "hi", 2) == 2);
  ::lseek(passed, 0, SEEK_SET);
  ProcessOptions options;
  options.descriptors = {passed};
  auto child = shell("cat <&3; echo; ls /proc/$$/fd", options);
  BOOST_TEST(read_all(child.output()) == "hi\n0\n1\n2\n3\n");
  ::close(secret);
  ::close(passed);
}

BOOST_AUTO_TEST_CASE(limits_and_environment_hold_in_the_child) {
  ProcessOptions options;
  options.environment = std::vector<std::string>{"A=1"};
  options.limits = {{RLIMIT_CORE, 0}, {RLIMIT_NOFILE, 77}};
  auto child = shell("echo $A $HOME $(ulimit -n)", options);
  BOOST_TEST(read_all(child.output()) == "1 77\n");
}

BOOST_AUTO_TEST_CASE(a_child_without_privileges_has_no_capabilities_and_never_gets_any) {
  ProcessOptions options;
  options.privileges = Privileges::none;
  auto child = shell("id -u; grep -E '^(Cap|NoNewPrivs)' /proc/self/status", options);
  const std::string said = read_all(child.output());
  BOOST_REQUIRE(child.wait(deadline_in(5.0)));
  BOOST_TEST(child.poll()->success());
  BOOST_TEST(said.starts_with(std::to_string(::getuid()) + "\n"), said);
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"})
    BOOST_TEST(said.find(std::string(set) + ":\t0000000000000000") != said.npos, said);
  if (::getuid() == 0) BOOST_TEST(said.find("CapBnd:\t0000000000000000") != said.npos, said);
  BOOST_TEST(said.find("NoNewPrivs:\t1") != said.npos, said);
}

// Caches of compilers write a file in a folder of its own and move it to its place.
BOOST_AUTO_TEST_CASE(a_child_behind_file_access_rules_moves_files_below_its_folder_and_reads_no_other) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("cultivar-walls-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "inside/new");
  std::ofstream(folder / "inside/new/file") << "moved\n";
  std::ofstream(folder / "outside") << "secret\n";
  if (const auto walls =
          FileAccessRules::make({"/usr", "/bin", "/lib", "/lib64", "/etc"}, {folder / "inside"})) {
    ProcessOptions options;
    options.walls = &*walls;
    ChildProcess child =
        shell("mv " + (folder / "inside/new/file").string() + " " + (folder / "inside/file").string() +
                  " && cat " + (folder / "inside/file").string() + "; cat " + (folder / "outside").string(),
              options);
    BOOST_TEST(read_all(child.output()) == "moved\n");
  } else {
    BOOST_TEST_MESSAGE(walls.error().message);
  }
  std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(a_child_of_another_user_starts_from_a_closed_folder_and_dies_with_its_parent) {
  if (!can_change_user()) {
    BOOST_TEST_MESSAGE("only root can change the user");
    return;
  }
  const auto closed =
      std::filesystem::temp_directory_path() / ("cultivar-closed-" + std::to_string(::getpid()));
  std::filesystem::create_directories(closed / "inner");
  std::filesystem::permissions(closed, std::filesystem::perms::owner_all);
  std::filesystem::copy_file(find_program("sh"), closed / "inner" / "shell",
                             std::filesystem::copy_options::overwrite_existing);
  BOOST_TEST(!reachable_by_all(closed / "inner" / "shell"));
  BOOST_TEST(readable_by_all(closed / "inner" / "shell"));
  BOOST_TEST(reachable_by_all(find_program("sh")));
  ProcessOptions options;
  options.privileges = Privileges::another_user;
  options.expendable = true;
  options.folder = closed / "inner";
  options.command = {closed / "inner" / "shell", "-c",
                     "id -u; id -g; id -G; cat /proc/self/oom_score_adj; cat " + closed.string() +
                         "/inner/shell >/dev/null || echo closed; exec sleep 100"};
  auto child = ChildProcess::spawn(options);
  BOOST_REQUIRE_MESSAGE(child, (child ? "" : child.error().message));
  const std::string wanted = "65533\n65533\n65533\n1000\nclosed\n";
  std::string said(wanted.size(), ' ');
  for (std::size_t got = 0; got < said.size();) {
    const auto more = ::read(child->output(), said.data() + got, said.size() - got);
    BOOST_REQUIRE(more > 0);
    got += static_cast<std::size_t>(more);
  }
  BOOST_TEST(said == wanted);
  const pid_t pid = child->pid();
  child->kill();
  BOOST_TEST(gone_within(pid, 2000ms));
  std::filesystem::remove_all(closed);
}

BOOST_AUTO_TEST_SUITE_END()
