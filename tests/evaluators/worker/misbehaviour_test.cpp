// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 340 s, evaluators/worker, evaluators/devices, evaluators/languages, evaluators/judge
// also without bubblewrap: what_does_not*, what_crashes*, no_memory*, nothing_of*, the_input*
// Every kernel under tests/kernels goes through all stages: where it is stopped, and with which message.
// After each of them the service evaluates an honest kernel.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "evaluators/devices/cpu/code/screen.hpp"
#include "support/softmax_judge.hpp"

using cultivar::testing::SoftmaxJudge;
using cultivar::testing::test_kernels;
using namespace cultivar;
namespace fs = std::filesystem;

namespace {

// A race between the cheat and the judge: the first run that shows it is random.
const std::set<Stage> kAnywhere = {Stage::smoke,       Stage::sweep, Stage::stress,
                                   Stage::determinism, Stage::edge,  Stage::measure};

struct Fate {
  const char* file;
  std::set<Stage>
      stages;  // where it may be stopped; empty: it is measured, because what it hoped for never happens
  const char* words;  // of the reason or the diagnostics
};

SoftmaxJudge& judge() {
  static SoftmaxJudge instance;
  return instance;
}

void check(const std::vector<Fate>& fates) {
  std::vector<tl::expected<Compiled, Evaluation>> compiled(
      fates.size(), tl::make_unexpected(rejection(Stage::compile, "not compiled", "")));
  const auto compile = [&](std::size_t first) {
    for (std::size_t i = first; i < fates.size(); i += 2)
      compiled[i] = judge().compile(fates[i].file, Stage::measure);
  };
  std::thread other(compile, 1);
  compile(0);
  other.join();
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const Fate& fate = fates[i];
    const auto start = std::chrono::steady_clock::now();
    const Evaluation e = compiled[i] ? judge().evaluate(fate.file, std::move(*compiled[i]), Stage::measure)
                                     : compiled[i].error();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    BOOST_TEST_MESSAGE(fmt::format("{} -> {}: {} ({:.1f} s)", fate.file,
                                   e.measured() ? "measured" : name_of(e.stage), e.reason, took.count()));
    if (fate.stages.empty()) {
      BOOST_TEST(e.measured(), fate.file << " was stopped at " << name_of(e.stage) << ": " << e.reason << "\n"
                                         << e.diagnostics);
      continue;
    }
    BOOST_TEST(!e.measured(), fate.file << " got through");
    BOOST_TEST(fate.stages.count(e.stage) == 1U,
               fate.file << " was stopped at " << name_of(e.stage) << ": " << e.reason);
    BOOST_TEST((e.reason + "\n" + e.diagnostics).find(fate.words) != std::string::npos,
               fate.file << " is told: " << e.reason << "\n"
                         << e.diagnostics);
    if (std::string_view(fate.words) == "deadline") BOOST_TEST(e.late, fate.file);
  }
}

void check_that_honest_work_passes() {
  for (const char* file : {"honest_softmax.cpp", "honest_waits.cpp"}) {
    const Evaluation e = judge().judge(file, Stage::measure);
    BOOST_TEST(e.measured(), file << ": " << e.reason << "\n" << e.diagnostics);
    BOOST_TEST(!e.worker_lost);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(misbehaviour)

BOOST_AUTO_TEST_CASE(what_does_not_compile_or_may_not_be_is_stopped_before_it_runs) {
  check({{"hostile/unknown_tensor.cpp", {Stage::lint}, "unknown_tensor.cpp:"},
         {"hostile/does_not_compile.cpp", {Stage::compile}, "error"},
         {"hostile/compile_bomb.cpp", {Stage::compile}, ""},
         {"hostile/reads_a_secret_while_compiling.cpp", {Stage::compile}, ""},
         {"hostile/missing_kernel.cpp", {Stage::lint}, "'softmax'"},
         {"hostile/static_constructor.cpp", {Stage::screen}, "static constructors"},
         {"hostile/starts_at_address_zero.cpp", {Stage::screen}, "static constructors"},
         {"hostile/huge_object.cpp", {Stage::compile}, "32 MiB of output"},
         {"hostile/uses_fork_of_libc.cpp", {Stage::screen}, "fork"},
         {"hostile/writable_global.cpp", {Stage::screen}, "writable static"},
         {"cheats/compiles_in_the_date.cpp", {Stage::compile}, "kernels_may_not_know_the_date"},
         {"cheats/reads_the_uptime_while_compiling.cpp", {Stage::compile}, "/proc/uptime"},
         {"cheats/patches_the_clock.cpp", {Stage::screen}, "clock_gettime"}});
#if defined(__x86_64__)
  check({{"cheats/runs_code_while_it_is_loaded.cpp", {Stage::screen}, "not those that the loader applies"},
         {"cheats/patches_libc_while_it_is_loaded.cpp", {Stage::screen}, "outside of the object's data"}});
#endif
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(what_crashes_or_calls_the_system_is_stopped_at_its_first_run) {
  // Where a virtual machine lets these instructions run, the screen finds them.
  const bool faults = clock_instructions_fault();
  const Stage clocks = faults ? Stage::smoke : Stage::screen;
  check({{"hostile/segfaults.cpp", {Stage::smoke}, "indices beyond a buffer"},
         {"hostile/illegal_instruction.cpp",
          {Stage::smoke},
          "an instruction that this processor does not have"},
         {"hostile/overflows_the_stack.cpp", {Stage::smoke}, "stack"},
         {"hostile/exits.cpp", {Stage::smoke}, "ended its own process"},
         {"hostile/forks.cpp", {Stage::smoke}, "fork"},
         {"hostile/executes_a_program.cpp", {Stage::smoke}, "execve"},
         {"hostile/kills_its_parent.cpp", {Stage::smoke}, "getppid"},
         {"hostile/opens_a_socket.cpp", {Stage::smoke}, "socket"},
         {"hostile/prints_gigabytes.cpp", {Stage::smoke}, "write"},
         {"hostile/reads_a_file.cpp", {Stage::smoke}, "open"},
         {"hostile/eats_memory.cpp", {Stage::smoke}, ""},
         {"hostile/loops_for_ever.cpp", {Stage::smoke}, "deadline"},
         {"hostile/too_slow.cpp", {Stage::smoke, Stage::sweep}, "deadline"},
         {"hostile/writes_past_the_end.cpp", {Stage::smoke, Stage::sweep}, "'y'"},
         {"hostile/writes_far_past_the_end.cpp", {Stage::smoke, Stage::sweep}, "'y'"},
         {"hostile/writes_before_the_start.cpp", {Stage::smoke, Stage::sweep}, "'y'"},
         {"cheats/patches_the_code_it_returns_to.cpp", {Stage::smoke}, "mprotect"},
         {"cheats/reads_its_memory_map.cpp", {Stage::smoke}, "open"},
         {"cheats/reads_the_judge.cpp", {Stage::smoke}, "getppid"},
         {"cheats/sets_a_timer.cpp", {Stage::smoke}, "setitimer"},
         {"cheats/reads_the_time_stamp.cpp", {clocks}, "rdtsc"},
         {"cheats/starts_a_thread.cpp", {Stage::smoke}, "clone"},
         {"cheats/starts_a_thread_with_clone3.cpp", {Stage::smoke}, "clone3"},
         {"hostile/poisons_memory.cpp", {Stage::smoke}, "madvise"},
         {"cheats/shares_its_pages.cpp", {Stage::smoke}, "madvise"},
         {"cheats/asks_libc_for_the_time.cpp", {Stage::smoke}, "clock_gettime"},
         {"cheats/asks_the_vdso_for_the_time.cpp", {Stage::smoke}, "clock_gettime"},
         {"cheats/asks_the_vsyscall_page_for_the_time.cpp", {Stage::smoke}, ""},
         {"cheats/reads_the_clock_page.cpp", {Stage::smoke}, "SIGSEGV"},
         {"cheats/waits_with_a_timeout.cpp", {Stage::smoke}, "futex"},
         {"cheats/waits_with_a_bitset_and_a_timeout.cpp", {Stage::smoke}, "futex"},
         {"cheats/waits_for_a_lock_with_a_timeout.cpp", {Stage::smoke}, "futex"},
         {"cheats/waits_with_a_timeout_at_many.cpp", {Stage::smoke}, "futex_waitv"},
         {"cheats/changes_its_core.cpp", {Stage::smoke}, "sched_setaffinity"},
         {"cheats/locks_its_pages.cpp", {Stage::smoke}, "mlock"},
         {"cheats/sets_its_timer_slack.cpp", {Stage::smoke}, "prctl"},
         {"cheats/turns_its_counter_on_again.cpp", {Stage::smoke}, "prctl"},
         {"cheats/raises_its_priority.cpp", {Stage::smoke}, "setpriority"},
         {"cheats/counts_its_page_faults.cpp", {Stage::smoke}, "getrusage"},
         {"cheats/asks_how_long_it_has_run.cpp", {Stage::smoke}, "times"},
         {"cheats/limits_its_memory.cpp", {Stage::smoke}, "prlimit"},
         {"cheats/asks_which_files_are_cached.cpp", {Stage::smoke}, "mincore"},
         {"cheats/asks_the_time_in_32_bits.cpp",
          {Stage::smoke},
          ""},  // SIGSEGV if the system has no such calls
         {"cheats/asks_the_time_through_x32.cpp", {Stage::smoke}, "forbidden system call"},
         {"cheats/reads_the_time_stamp_in_order.cpp", {clocks}, faults ? "SIGSEGV" : "rdtscp"},
         {"cheats/reads_a_performance_counter.cpp", {Stage::smoke}, "SIGSEGV"},
         {"cheats/reads_the_performance_frequency.cpp", {clocks}, faults ? "SIG" : "rdpru"},
         {"cheats/pauses_until_a_time.cpp", {Stage::smoke}, "SIG"},
         {"cheats/steps_through_its_code.cpp", {Stage::smoke}, "SIGTRAP"},
         {"cheats/learns_its_number_when_it_ends.cpp", {Stage::smoke}, "exit"},
         {"cheats/grows_its_output.cpp", {Stage::smoke}, "SIG"},
         {"cheats/looks_beyond_its_buffers.cpp", {Stage::smoke, Stage::sweep}, "'y'"},
         {"cheats/overwrites_its_input.cpp", {Stage::smoke}, "'x'"}});
#if defined(__x86_64__)
  check({{"cheats/blames_the_machine.cpp", {Stage::smoke}, "forbidden system call"}});
#endif
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(wrong_outputs_are_stopped_by_the_comparison_with_their_place) {
  check({{"hostile/returns_nan.cpp", {Stage::smoke}, "every wrong element is NaN"},
         {"hostile/nan_at_one_place.cpp", {Stage::smoke, Stage::sweep}, "NaN"},
         {"hostile/wrong_only_at_odd_lengths.cpp", {Stage::sweep, Stage::edge}, "got"},
         {"hostile/races.cpp", {Stage::smoke, Stage::sweep, Stage::stress, Stage::determinism}, ""},
         {"cheats/answers_a_constant.cpp", {Stage::smoke}, "got"},
         {"cheats/answers_what_it_was_given.cpp", {Stage::smoke}, "got"},
         {"cheats/knows_the_benchmark.cpp", {Stage::smoke}, "never written"},
         {"cheats/keeps_its_first_maximum.cpp", {Stage::sweep, Stage::stress}, "NaN"},
         {"cheats/leaves_out_the_last_tile.cpp", {Stage::smoke, Stage::sweep, Stage::edge}, "got"},
         {"cheats/lowers_the_precision.cpp", {Stage::smoke}, "allowed"},
         {"cheats/writes_nothing.cpp", {Stage::smoke}, "never written"},
         {"cheats/writes_half.cpp", {Stage::smoke}, "never written"}});
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(what_behaves_only_while_it_is_checked_is_stopped_while_it_is_timed) {
  check({{"cheats/skips_work_on_large_inputs.cpp", {Stage::edge, Stage::measure}, "differs from the oracle"},
         {"cheats/is_wrong_in_one_row.cpp", {Stage::edge, Stage::measure}, "differs from the oracle"},
         {"cheats/answers_too_early.cpp", kAnywhere, ""},
         {"cheats/computes_one_input_in_four.cpp", {Stage::edge, Stage::measure}, "not written"},
         {"cheats/skips_rows_at_random.cpp", {Stage::edge, Stage::measure}, "differs from the oracle"},
         {"cheats/answers_before_its_last_rows.cpp", {Stage::edge, Stage::measure}, "not written"},
         {"cheats/gives_up_inputs_it_dislikes.cpp", {Stage::edge, Stage::measure}, ""}});
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(what_hopes_for_old_results_never_finds_them) {
  check({{"cheats/keeps_what_is_there.cpp", {}, ""},
         {"cheats/remembers_in_workspace.cpp", {}, ""},
         {"cheats/replays_by_pointer.cpp", {}, ""},
         {"cheats/knows_its_windows.cpp", {}, ""},
         {"cheats/memoizes_rows_by_their_sums.cpp", {}, ""}});
}

// Each would give wrong outputs if it found its mark of an earlier run, or learnt how many there were.
BOOST_AUTO_TEST_CASE(no_memory_of_a_candidate_outlives_a_run) {
  check({{"cheats/remembers_in_freed_memory.cpp", {}, ""},
         {"cheats/remembers_in_its_constants.cpp", {}, ""},
         {"cheats/remembers_in_mapped_memory.cpp", {}, ""},
         {"cheats/remembers_in_the_program_break.cpp", {}, ""},
         {"cheats/remembers_in_the_shared_page.cpp", {}, ""},
         {"cheats/remembers_on_its_stack.cpp", {}, ""},
         {"cheats/works_every_other_time.cpp", {}, ""}});
#if defined(__x86_64__)
  check({{"cheats/remembers_in_a_register.cpp", {}, ""},
         {"cheats/remembers_in_a_segment_base.cpp", {}, ""},
         {"cheats/remembers_in_a_second_view.cpp", {}, ""},
         {"cheats/remembers_in_its_protection_keys.cpp", {}, ""},
         {"cheats/remembers_in_its_rounding_mode.cpp", {}, ""},
         {"cheats/remembers_in_its_thread_descriptor.cpp", {}, ""},
         {"cheats/remembers_in_its_vector_registers.cpp", {}, ""},
         {"cheats/counts_its_runs.cpp", {}, ""},
         {"cheats/finds_traces_of_earlier_runs.cpp", {}, ""}});
#endif
}

#if defined(__x86_64__)
BOOST_AUTO_TEST_CASE(the_state_in_which_a_kernel_returns_disturbs_nobody) {
  check({{"cheats/returns_with_its_flags_changed.cpp", {}, ""},
         {"cheats/returns_with_unmasked_exceptions.cpp", {}, ""}});
}
#endif

BOOST_AUTO_TEST_CASE(nothing_of_a_candidate_runs_before_the_signal_or_after_its_answer) {
  check({{"cheats/computes_ahead.cpp", {}, ""},
         {"cheats/works_before_the_bell.cpp", {}, ""},
         {"cheats/wakes_the_judge_early.cpp", {}, ""},
         {"cheats/goes_on_when_it_was_slow.cpp", {}, ""}});
}

BOOST_AUTO_TEST_CASE(the_input_of_the_judge_stays_as_it_is) {
  check({{"cheats/unlocks_its_input.cpp", {}, ""},
         {"cheats/maps_its_input_anew.cpp", {Stage::smoke}, "got"},
         {"cheats/takes_over_the_main_thread.cpp", {}, ""}});
}

// Against the honest kernel that they contain. A cheat that worked would be far better.
BOOST_AUTO_TEST_CASE(the_gate_finds_no_gain_in_what_gets_through) {
  const auto compiled = [](const std::string& file) {
    auto made =
        judge().compiler().compile(load_variant(test_kernels() / file, judge().task()), {judge().workload()});
    BOOST_REQUIRE_MESSAGE(made, (made ? "" : made.error().reason));
    return *made;
  };
  const Compiled honest = compiled("honest_softmax.cpp");
  for (const char* file :
       {"keeps_what_is_there", "remembers_in_workspace", "replays_by_pointer", "knows_its_windows",
        "remembers_in_mapped_memory", "works_every_other_time", "computes_ahead", "works_before_the_bell",
        "goes_on_when_it_was_slow", "unlocks_its_input", "takes_over_the_main_thread",
        "remembers_in_a_second_view", "remembers_in_its_rounding_mode", "wakes_the_judge_early",
        "memoizes_rows_by_their_sums"}) {
    GateRequest request;
    request.challenger = compiled(std::string("cheats/") + file + ".cpp");
    request.incumbent = request.control = honest;
    request.workloads = {judge().workload()};
    request.options.max_device_seconds = 2.0;
    // On a busy machine one of these may be found better by chance, at the gate's alpha; not twice.
    bool better = true;
    for (request.seed = 7; better && request.seed < 9; ++request.seed) {
      const auto report = judge().device().gate(request);
      BOOST_REQUIRE(report);
      BOOST_TEST_MESSAGE(file << ": " << report->decision.reason);
      BOOST_TEST(report->trouble.empty(),
                 file << ": " << fmt::format("{}", fmt::join(report->trouble, "; ")));
      better = report->decision.verdict == Verdict::better;
    }
    BOOST_TEST(!better, file << " was found better twice");
  }
}

BOOST_AUTO_TEST_CASE(what_libc_asks_the_first_time_is_no_call_of_the_kernel) {
  const Evaluation e = judge().judge("honest_sorts.cpp", Stage::edge);
  BOOST_TEST(e.measured(), e.reason << "\n" << e.diagnostics);
}

BOOST_AUTO_TEST_CASE(no_kernel_in_the_folders_is_forgotten) {
  // The lists above name them all; a new kernel must be added to one of them.
  std::size_t count = 0;
  for (const char* folder : {"hostile", "cheats"})
    for (const auto& entry : fs::directory_iterator(test_kernels() / folder))
      count += entry.path().extension() == ".cpp";
  BOOST_TEST(count == 118U);
}

BOOST_AUTO_TEST_SUITE_END()
