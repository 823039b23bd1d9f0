// SPDX-License-Identifier: Apache-2.0
// Real hostile kernels and cheats, and the session's verdict on each.
// runs alone
// also without bubblewrap
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "evaluators/devices/cpu/code/screen.hpp"
#include "support/cpu_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cpu_test;

namespace {

struct Expected_ {
  const char* file;
  Fault::Kind kind;
  const char* words;
};

void check(const Expected_& expected, int rows = 64, int columns = 512) {
  BOOST_TEST_CONTEXT(expected.file) {
    SoftmaxRun run(expected.file, rows, columns);
    // Both placements: beyond the end and before the start are caught in one of them each.
    auto sample = run.run({.timed = false, .poison_seed = 0, .deadline_s = 3.0});
    if (sample) sample = run.run({.timed = false, .poison_seed = 0, .deadline_s = 3.0});
    BOOST_REQUIRE(!sample);
    BOOST_TEST(name_of(sample.error().kind) == name_of(expected.kind), sample.error().detail);
    BOOST_TEST(sample.error().detail.find(expected.words) != std::string::npos, sample.error().detail);
    const auto again = run.run();
    BOOST_REQUIRE(!again);
    BOOST_TEST(again.error().detail == sample.error().detail);
  }
}

// The processes that have this kernel's file mapped, which are its cells and no others, and their memory
// maps.
std::map<int, std::string> maps_by_cell(const char* kernel) {
  const auto variant = load_variant(source_folder / "tests/kernels" / kernel, softmax());
  struct stat file {};
  BOOST_REQUIRE(::stat(compiled(variant).path.c_str(), &file) == 0);
  const std::string inode = " " + std::to_string(file.st_ino) + " ";
  std::map<int, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ostringstream text;  // what could be read of a process that has just ended
    text << std::ifstream(entry.path() / "maps").rdbuf();
    const std::string maps = text.str();
    if (maps.find(inode) != std::string::npos) found[std::stoi(entry.path().filename())] = maps;
  }
  return found;
}
std::vector<std::string> maps_of_cells(const char* kernel) {
  std::vector<std::string> all;
  for (const auto& [process, maps] : maps_by_cell(kernel)) all.push_back(maps);
  return all;
}

// The numbers of a process and its threads as the process sees them.
std::set<std::uint32_t> numbers_of(int process) {
  std::set<std::uint32_t> numbers;
  const std::filesystem::path folder = "/proc/" + std::to_string(process) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("NSpid:"))
        numbers.insert(static_cast<std::uint32_t>(std::stoul(line.substr(line.find_last_of(" \t")))));
  }
  return numbers;
}

// The addresses of a process's own memory at which one of these numbers lies; empty if it may not be read.
std::set<std::uint64_t> addresses_with(const std::set<std::uint32_t>& numbers, int process,
                                       const std::string& maps, std::size_t& read) {
  std::ifstream memory("/proc/" + std::to_string(process) + "/mem", std::ios::binary);
  std::istringstream lines(maps);
  std::set<std::uint64_t> found;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" rw-p ") == line.npos) continue;
    std::size_t used = 0;
    const std::uint64_t begin = std::stoull(line, &used, 16),
                        end = std::stoull(line.substr(used + 1), nullptr, 16);
    std::vector<std::uint32_t> words((end - begin) / 4);
    memory.clear();
    memory.seekg(static_cast<std::streamoff>(begin));
    memory.read(reinterpret_cast<char*>(words.data()), static_cast<std::streamsize>(end - begin));
    words.resize(static_cast<std::size_t>(std::max<std::streamsize>(memory.gcount(), 0)) / 4);
    read += words.size();
    for (std::size_t i = 0; i < words.size(); ++i)
      if (numbers.contains(words[i])) found.insert(begin + 4 * i);
  }
  return found;
}

std::size_t cells_of(const char* kernel) {
  return maps_of_cells(kernel).size();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cpu_cell)

BOOST_AUTO_TEST_CASE(an_honest_kernel_passes_and_is_right_in_checks_and_in_timed_runs) {
  SoftmaxRun run("honest_softmax.cpp", 8192, 1024);
  for (const bool timed : {false, false, true, true, true}) {
    const auto sample = run.run({.timed = timed, .poison_seed = 0, .deadline_s = 20.0});
    BOOST_REQUIRE_MESSAGE(sample, (sample ? "" : sample.error().detail));
    BOOST_TEST(sample->seconds > 1e-4);
    BOOST_TEST(sample->seconds < 5.0);
    BOOST_TEST(run.error() < 1e-5);
    BOOST_TEST(run.session().unwritten_elements() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(system_calls_are_forbidden_and_named) {
  using K = Fault::Kind;
  for (const Expected_& expected : std::initializer_list<Expected_>{
           {"hostile/executes_a_program.cpp", K::forbidden_call, "execve"},
           {"hostile/forks.cpp", K::forbidden_call, "fork"},
           {"hostile/kills_its_parent.cpp", K::forbidden_call, "getppid"},
           {"hostile/opens_a_socket.cpp", K::forbidden_call, "socket"},
           {"hostile/prints_gigabytes.cpp", K::forbidden_call, "write"},
           {"hostile/reads_a_file.cpp", K::forbidden_call, "open"},
           {"cheats/patches_the_code_it_returns_to.cpp", K::forbidden_call, "mprotect"},
           {"cheats/reads_its_memory_map.cpp", K::forbidden_call, "open"},
           {"cheats/reads_the_judge.cpp", K::forbidden_call, "getppid"},
           {"cheats/sets_a_timer.cpp", K::forbidden_call, "setitimer"},
           {"cheats/starts_a_thread.cpp", K::forbidden_call, "clone"},
           {"cheats/starts_a_thread_with_clone3.cpp", K::forbidden_call, "clone3"}})
    check(expected);
}

BOOST_AUTO_TEST_CASE(crashes_are_reported_with_signal_and_place) {
  using K = Fault::Kind;
  for (const Expected_& expected : std::initializer_list<Expected_>{
           {"hostile/exits.cpp", K::crashed, "ended its own process"},
           {"hostile/illegal_instruction.cpp", K::crashed, "SIGILL"},
           {"hostile/overflows_the_stack.cpp", K::crashed, "stack"},
           {"hostile/segfaults.cpp", K::crashed, "null pointer"},
           {"hostile/writes_far_past_the_end.cpp", K::crashed, "past the end of 'y'"},
           {"hostile/writes_past_the_end.cpp", K::crashed, "0 bytes past the end of 'y'"},
           {"cheats/looks_beyond_its_buffers.cpp", K::crashed, "past the end of 'y'"},
           {"cheats/overwrites_its_input.cpp", K::crashed, "the input 'x'; inputs are read-only"},
       })
    check(expected);
#if defined(__x86_64__)
  if (clock_instructions_fault()) check({"cheats/reads_the_time_stamp.cpp", K::crashed, "rdtsc"});
#endif
}

BOOST_AUTO_TEST_CASE(a_cell_has_none_of_the_pages_that_hold_a_clock) {
  const SoftmaxRun run("honest_softmax.cpp", 64, 512);
  std::ifstream here("/proc/self/maps");
  const std::string own(std::istreambuf_iterator<char>(here), {});
  const std::vector<std::string> maps = maps_of_cells("honest_softmax.cpp");
  BOOST_TEST_REQUIRE(maps.size() == 1U);
  BOOST_TEST(own.find("[vvar") != own.npos);  // so that one that is there is seen
  for (const char* name : {"[vvar", "[vdso"})
    BOOST_TEST(maps.front().find(name) == std::string::npos, maps.front());
}

// The system's numbers would tell a kernel how many runs came before. A place with the right number in three
// copies does not have it by chance.
BOOST_AUTO_TEST_CASE(no_memory_of_a_cell_holds_the_numbers_of_its_threads) {
  const char* const kernel = "slow_softmax.cpp";
  SoftmaxRun run(kernel, 8192, 1024);
  BOOST_REQUIRE(run.run());
  std::set<std::uint64_t> everywhere;
  std::size_t read = 0;
  for (int i = 0; i < 3; ++i) {
    auto result = std::async(std::launch::async, [&] { return run.run(); });
    std::map<int, std::string> cells;
    while (cells.empty() && result.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
      cells = maps_by_cell(kernel);
    BOOST_TEST_REQUIRE(cells.size() == 1U);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // it now computes
    const int process = cells.begin()->first;
    ::kill(process, SIGSTOP);
    const auto numbers = numbers_of(process);
    BOOST_TEST(numbers.size() == 2U);
    const auto here = addresses_with(numbers, process, maps_by_cell(kernel)[process], read);
    ::kill(process, SIGCONT);
    BOOST_REQUIRE(result.get());
    std::set<std::uint64_t> both;
    std::set_intersection(here.begin(), here.end(), everywhere.begin(), everywhere.end(),
                          std::inserter(both, both.end()));
    everywhere = i == 0 ? here : both;
  }
  BOOST_TEST((read > 0 || ::geteuid() != 0));  // who is not root may not look
  for (const std::uint64_t address : everywhere) BOOST_ERROR("a number lies at " << std::hex << address);
}

BOOST_AUTO_TEST_CASE(clocks_and_timeouts_are_forbidden_and_named) {
  using K = Fault::Kind;
#if defined(__x86_64__)
  for (const Expected_& expected : std::initializer_list<Expected_>{
           {"cheats/asks_libc_for_the_time.cpp", K::forbidden_call, "clock_gettime"},
           {"cheats/asks_the_vdso_for_the_time.cpp", K::forbidden_call, "clock_gettime"},
           {"cheats/reads_the_clock_page.cpp", K::crashed, "SIGSEGV"},
           {"cheats/waits_with_a_timeout.cpp", K::forbidden_call, "futex"},
           {"cheats/waits_with_a_bitset_and_a_timeout.cpp", K::forbidden_call, "futex"},
           {"cheats/waits_for_a_lock_with_a_timeout.cpp", K::forbidden_call, "futex"},
           {"cheats/waits_with_a_timeout_at_many.cpp", K::forbidden_call, "futex_waitv"},
           {"cheats/shares_its_pages.cpp", K::forbidden_call, "madvise"},
           {"hostile/poisons_memory.cpp", K::forbidden_call, "madvise"}})
    check(expected);
#endif
  SoftmaxRun waits("honest_waits.cpp", 64, 512);
  for (int i = 0; i < 20; ++i) {
    const auto sample = waits.run();
    BOOST_REQUIRE_MESSAGE(sample, (sample ? "" : sample.error().detail));
    BOOST_TEST(waits.error() < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(writes_before_the_start_break_a_canary) {
  check({"hostile/writes_before_the_start.cpp", Fault::Kind::guard_overwritten, "before the start of 'y'"});
}

BOOST_AUTO_TEST_CASE(a_kernel_that_hangs_is_killed_at_the_deadline) {
  check({"hostile/loops_for_ever.cpp", Fault::Kind::timed_out, "deadline"});
  for (int look = 0; look < 500 && cells_of("hostile/loops_for_ever.cpp") > 0;
       ++look)  // it dies in its own time
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  BOOST_TEST(cells_of("hostile/loops_for_ever.cpp") == 0u);
  const SoftmaxRun honest("honest_softmax.cpp", 64, 512);
  BOOST_TEST(cells_of("honest_softmax.cpp") == 1u);  // so one that lives is seen
}

BOOST_AUTO_TEST_CASE(a_kernel_that_eats_memory_is_stopped_by_its_limit) {
  // Whether malloc finally returns null or a small block, there is no result.
  SoftmaxRun run("hostile/eats_memory.cpp", 2048, 1024);
  const auto sample = run.run({.timed = false, .poison_seed = 0, .deadline_s = 60.0});
  if (sample)
    BOOST_TEST(run.session().unwritten_elements() > 0u);
  else
    BOOST_TEST(name_of(sample.error().kind) == "out_of_memory", sample.error().detail);
}

BOOST_AUTO_TEST_CASE(kernels_that_leave_elements_unwritten_are_seen) {
  SoftmaxRun none("cheats/writes_nothing.cpp", 64, 512), half("cheats/writes_half.cpp", 64, 512);
  BOOST_REQUIRE(none.run());
  BOOST_TEST(none.session().unwritten_elements() == 64u * 512u / 2u);  // counted in groups of eight bytes
  BOOST_REQUIRE(half.run());
  BOOST_TEST(half.session().unwritten_elements() > 0u);
}

BOOST_AUTO_TEST_CASE(a_computation_that_should_serve_two_calls_is_not_found_by_the_second) {
  SoftmaxRun run("cheats/works_every_other_time.cpp", 64, 512);
  for (int i = 0; i < 4; ++i) {
    BOOST_REQUIRE(run.run());
    BOOST_TEST(run.error() < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(a_remembered_pointer_is_another_buffer_the_next_time) {
  // The cheat never finds its key, so it has to compute and does.
  SoftmaxRun run("cheats/replays_by_pointer.cpp", 64, 512);
  for (int i = 0; i < 5; ++i) {
    BOOST_REQUIRE(run.run());
    BOOST_TEST(run.error() < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(a_workspace_forgets_between_runs) {
  // The mark is gone in every run, so the cheat has to compute each time and does.
  SoftmaxRun run("cheats/remembers_in_workspace.cpp", 64, 512);
  for (int i = 0; i < 4; ++i) {
    BOOST_REQUIRE(run.run());
    BOOST_TEST(run.error() < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(stale_outputs_are_not_available_to_be_kept) {
  SoftmaxRun run("cheats/keeps_what_is_there.cpp", 64, 512);
  for (int i = 0; i < 4; ++i) {
    BOOST_REQUIRE(run.run());
    BOOST_TEST(run.error() < 1e-5);
  }
}

#if defined(__x86_64__)
// The run ends when it answers, so what it had not written by then stays unwritten.
BOOST_AUTO_TEST_CASE(a_kernel_that_reports_completion_early_cannot_go_on) {
  SoftmaxRun run("cheats/answers_too_early.cpp", 8192, 1024);
  for (int i = 0; i < 4; ++i) {
    BOOST_REQUIRE(run.run());
    BOOST_TEST(run.session().unwritten_elements() > 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_kernel_that_never_returns_starts_anew_in_each_run) {
  for (const char* file : {"cheats/computes_ahead.cpp", "cheats/works_before_the_bell.cpp"}) {
    SoftmaxRun run(file, 8192, 1024), honest("honest_softmax.cpp", 8192, 1024);
    double least = 1e9, least_of_honest = 1e9;
    // Results that were there already would leave only a copy: a fifth of the time.
    const auto gains_nothing = [&] { return least > 0.6 * least_of_honest; };
    // Six runs, and more while the machine's noise may be why the honest kernel seems slower.
    for (int i = 0; i < 6 || (i < 40 && !gains_nothing()); ++i) {
      const auto fair = honest.run({.timed = true, .poison_seed = 0, .deadline_s = 20.0});
      BOOST_REQUIRE(fair);
      least_of_honest = std::min(least_of_honest, fair->seconds);
      const auto sample = run.run({.timed = true, .poison_seed = 0, .deadline_s = 20.0});
      BOOST_REQUIRE_MESSAGE(sample, (sample ? "" : sample.error().detail));
      BOOST_TEST(run.error() < 1e-5);
      least = std::min(least, sample->seconds);
    }
    BOOST_TEST(gains_nothing(), file << ": " << least << " s, honest: " << least_of_honest << " s");
  }
}
#endif

// The page through which a run is called, and the addresses and numbers in it, are all that a candidate
// finds.
BOOST_AUTO_TEST_CASE(a_run_cannot_tell_how_many_came_before) {
  SoftmaxRun run("cheats/counts_its_runs.cpp", 64, 512);
  for (int i = 0; i < 12; ++i) {
    BOOST_REQUIRE(run.run());
    BOOST_TEST(run.error() < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_left_of_a_run) {
  SoftmaxRun run("honest_softmax.cpp", 64, 512);
  for (int i = 0; i < 30; ++i) BOOST_REQUIRE(run.run());
  BOOST_TEST(cells_of("honest_softmax.cpp") == 0u);  // the kernels are only where they run
}

BOOST_AUTO_TEST_SUITE_END()
