// SPDX-License-Identifier: Apache-2.0
// runs alone
// Every kernel under tests/kernels/cuda/cheats and hostile goes through all stages on a real GPU: where it is
// stopped, and with which message. An honest kernel is evaluated after each group, in a new context if one
// was broken.
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "evaluators/worker/services.hpp"
#include "gpu/gpu_bench.hpp"
#include "support/words.hpp"

using cultivar::testing::words;
using namespace cultivar;
namespace fs = std::filesystem;

namespace {

const std::set<Stage> kAnywhere = {Stage::smoke,       Stage::sweep, Stage::stress,
                                   Stage::determinism, Stage::edge,  Stage::measure};

struct Fate {
  const char* file;
  std::set<Stage>
      stages;  // where it may be stopped; empty: it is measured, because what it hoped for never happens
  const char* words;      // of the reason or the diagnostics
  bool may_pass = false;  // it is stopped, or finds nothing and is measured
  const char* twin =
      nullptr;  // an honest kernel with the same work: measured, it is not faster than this one
};

// A cheat that found what it looked for says so by outputs that are e^3 of what they should be.
constexpr const char* kFound = "every wrong element is 20.08";
constexpr double kNotFaster = 0.85;  // of the twin's time: equal work differs by less from run to run

fs::path kernels() {
  return testing::source_folder() / "tests/kernels/cuda";
}

struct Judge {
  Judge(const fs::path& folder, Bindings values) {
    options.target = target_named("cuda");
    options.programs = testing::programs_folder();
    options.cache = testing::tests_cache();
    options.task_folder = testing::source_folder() / folder;
    options.run_deadline_s = 2.0;
    task = load_task(options.task_folder);
    device = std::make_unique<DeviceService>(options);
    const auto info = device->info();
    BOOST_REQUIRE_MESSAGE(info, words(info));
    options.architecture = architecture_of(static_cast<int>(info->facts.at("compute_capability")));
    compiler = std::make_unique<CompileService>(options);
    workload.name = "large";
    workload.dtype = Dtype::f32;
    workload.values = std::move(values);
  }

  Evaluation judge(const std::string& file, Stage stop_after = Stage::measure) {
    std::optional<Variant> variant;
    try {
      variant = load_variant(kernels() / file, task);
    } catch (const InputError& e) {
      return rejection(Stage::lint, e.what(), "");
    }
    auto compiled = compiler->compile(*variant, {workload});
    if (!compiled) return compiled.error();
    EvaluateRequest request;
    request.variant = std::move(*compiled);
    request.workloads = {workload};
    request.stop_after = stop_after;
    const auto evaluation = device->evaluate(request);
    BOOST_REQUIRE_MESSAGE(evaluation, file << ": " << words(evaluation));
    return *evaluation;
  }

  ServiceOptions options;
  Task task;
  Workload workload;
  std::unique_ptr<CompileService> compiler;
  std::unique_ptr<DeviceService> device;
};

Judge& judge() {
  static Judge instance("configs/tasks/softmax", {{"R", 4096}, {"C", 1024}});
  return instance;
}

double microseconds(const Evaluation& e) {
  return e.measured() ? e.workloads.front().median_us : 0.0;
}

// The time of an honest kernel, measured once.
double time_of_twin(const std::string& file) {
  static std::map<std::string, double> known;
  const auto found = known.find(file);
  if (found != known.end()) return found->second;
  const Evaluation e = judge().judge(file);
  BOOST_TEST(e.measured(), file << " was stopped at " << name_of(e.stage) << ": " << e.reason << "\n"
                                << e.diagnostics);
  BOOST_TEST_MESSAGE("fate: " << file << " (honest) -> " << microseconds(e) << " us");
  return known[file] = microseconds(e);
}

void check(const std::vector<Fate>& fates) {
  for (const Fate& fate : fates) {
    const Evaluation e = judge().judge(fate.file);
    BOOST_TEST_MESSAGE("fate: " << fate.file << " -> " << (e.measured() ? "measured" : name_of(e.stage))
                                << ": " << e.reason << (e.worker_lost ? " (worker lost)" : ""));
    if (fate.twin != nullptr && e.measured()) {
      const double honest = time_of_twin(fate.twin), cheat = microseconds(e);
      BOOST_TEST_MESSAGE("fate: " << fate.file << " takes " << cheat << " us, " << fate.twin << " " << honest
                                  << " us");
      BOOST_TEST(cheat >= kNotFaster * honest,
                 fate.file << " takes " << cheat << " us, but " << fate.twin << " " << honest << " us");
    }
    if (fate.stages.empty()) {
      BOOST_TEST(e.measured(), fate.file << " was stopped at " << name_of(e.stage) << ": " << e.reason << "\n"
                                         << e.diagnostics);
      continue;
    }
    if (fate.may_pass) {
      if (e.measured()) continue;
      BOOST_TEST((e.reason + "\n" + e.diagnostics).find(kFound) == std::string::npos,
                 fate.file << " found what it looked for: " << e.reason << "\n"
                           << e.diagnostics);
    }
    BOOST_TEST(!e.measured(), fate.file << " got through");
    BOOST_TEST(fate.stages.count(e.stage) == 1U,
               fate.file << " was stopped at " << name_of(e.stage) << ": " << e.reason);
    BOOST_TEST((e.reason + "\n" + e.diagnostics).find(fate.words) != std::string::npos,
               fate.file << " is told: " << e.reason << "\n"
                         << e.diagnostics);
  }
}

void check_that_honest_work_passes() {
  const Evaluation e = judge().judge("honest_softmax.cu");
  BOOST_TEST(e.measured(), e.reason << "\n" << e.diagnostics);
  BOOST_TEST(!e.worker_lost);
  if (!e.measured()) return;
  const WorkloadResult& w = e.workloads.front();
  BOOST_TEST_MESSAGE("fate: honest_softmax.cu -> "
                     << w.value << " " << w.unit << ", " << w.median_us << " us [" << w.q1_us << ", "
                     << w.q3_us << "], " << w.samples.size() << " samples at " << w.samples.back().clock_mhz
                     << " MHz; checks " << e.check_seconds << " s, measured in " << e.measure_seconds
                     << " s");
  BOOST_TEST(w.samples.size() == 20U);
  for (const Sample& sample : w.samples) {
    BOOST_TEST(sample.seconds > 0.0);
    BOOST_TEST(sample.clock_mhz > 0.0);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_misbehaviour, *gpu_test::needs_a_gpu())

BOOST_AUTO_TEST_CASE(honest_work_is_measured) {
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(what_breaks_or_hangs_the_device_is_stopped_and_the_next_is_judged_as_ever) {
  check({{"hostile/reads_nowhere.cu", {Stage::smoke}, "ILLEGAL_ADDRESS"}});
  check_that_honest_work_passes();
  check({{"hostile/spins_for_ever.cu", {Stage::smoke}, "timed out"}});
  check_that_honest_work_passes();
  check({{"hostile/misaligned.cu", {Stage::smoke}, "MISALIGNED_ADDRESS"},
         {"hostile/traps.cu", {Stage::smoke}, "CUDA_ERROR"}});
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(unavailable_resources_are_rejected_with_a_message) {
  check(
      {{"hostile/asks_for_too_much_memory.cu", {Stage::smoke}, "bytes of GPU memory"},
       {"cheats/launch_fails_beside_a_right_output.cu", {Stage::lint, Stage::screen, Stage::smoke}, "finish"},
       {"hostile/writes_past_the_end.cu", {Stage::smoke}, "past the end of 'y'"},
       {"hostile/writes_before_the_start.cu", {Stage::smoke}, "before the start of 'y'"},
       {"cheats/remembers_in_a_global.cu", {Stage::screen}, "runs"}});
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(wrong_outputs_are_stopped_by_the_comparison_with_their_place) {
  check({{"hostile/returns_nan.cu", {Stage::smoke}, "NaN"},
         {"hostile/races.cu", {Stage::smoke, Stage::sweep, Stage::stress, Stage::determinism}, ""},
         {"cheats/answers_a_constant.cu", {Stage::smoke}, "got"},
         {"cheats/lowers_the_precision.cu", {Stage::smoke}, "allowed"},
         {"cheats/leaves_out_the_last_tile.cu", {Stage::smoke, Stage::sweep}, "got"},
         {"cheats/looks_for_the_answer_beyond_its_buffers.cu", {Stage::smoke}, "got"},
         {"cheats/overwrites_its_input.cu", {Stage::smoke}, "'x'"}});
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(what_hopes_for_old_results_finds_none) {
  check({{"cheats/keeps_what_is_there.cu", {Stage::smoke}, "never written"},
         {"cheats/remembers_in_workspace.cu", {Stage::smoke}, "never written"},
         {"cheats/remembers_behind_its_workspace.cu", {Stage::smoke}, "past the end of 'spare'"},
         {"cheats/remembers_in_a_mapped_workspace.cu", {}, ""},
         {"cheats/maps_more_than_its_workspace.cu",
          {Stage::lint, Stage::screen, Stage::smoke},
          "the map reaches byte"},
         {"cheats/compiles_in_the_date.cu", {}, ""},
         {"cheats/remembers_in_shared_memory.cu", kAnywhere, ""},
         {"cheats/replays_by_pointer.cu", {Stage::smoke}, "past the end of 'y'"},
         {"cheats/computes_when_it_sees_poison.cu", {Stage::smoke}, "never written"},
         {"cheats/saves_rows_for_the_next_call.cu", kAnywhere, ""},
         {"cheats/pins_its_input_in_the_cache.cu", {}, "", false, "honest_softmax.cu"},
         {"cheats/pins_its_buffers_by_prefetch.cu", {}, "", false, "honest_softmax.cu"}});
}

BOOST_AUTO_TEST_CASE(no_memory_of_a_multiprocessor_lasts_from_run_to_run) {
  check({{"cheats/remembers_in_uninitialized_shared_memory.cu", {}, ""},
         {"cheats/remembers_in_the_shared_memory_of_its_neighbor.cu", {}, ""},
         {"cheats/remembers_in_reserved_shared_memory.cu", {}, ""},
         // Without the judge, too, these two are wrong in some rows where local memory or registers hold
         // random values.
         {"cheats/remembers_in_local_memory.cu", kAnywhere, "", true},
         {"cheats/remembers_in_local_memory_without_a_frame.cu", {Stage::smoke}, "CUDA_ERROR", true},
         {"cheats/remembers_in_registers.cu", kAnywhere, "", true},
         {"cheats/reads_stale_lines_of_its_output.cu", {}, ""}});
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(no_memory_of_the_device_lasts_from_run_to_run) {
  check({{"cheats/keeps_state_behind_the_guards.cu", {Stage::smoke}, "past the end of 'y'"}});
  check({{"cheats/keeps_state_megabytes_away.cu", {Stage::smoke}, "CUDA_ERROR"}});
  check_that_honest_work_passes();
  check({{"cheats/searches_memory_by_a_map.cu", kAnywhere, "CUDA_ERROR", true}});
  check_that_honest_work_passes();
  check({{"cheats/keeps_state_at_known_addresses.cu", kAnywhere, "CUDA_ERROR", true}});
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(arguments_of_other_launches_are_not_found) {
  check({{"cheats/reads_arguments_behind_a_table.cu", {Stage::smoke}, "CUDA_ERROR", true},
         {"cheats/reads_memory_around_a_table.cu", {Stage::smoke}, "CUDA_ERROR", true}});
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(a_plan_ends_when_all_of_its_work_has_ended) {
  check({{"cheats/ends_before_its_work.cu", {}, "", false, "honest_overlap.cu"},
         {"cheats/lets_what_follows_start_early.cu", {}, "", false, "honest_rows.cu"},
         {"cheats/ends_early_unless_it_is_traced.cu", {}, "", false, "honest_overlap.cu"},
         {"cheats/leaves_its_stores_to_the_copy_engine.cu", kAnywhere, "", true, "honest_bulk_stores.cu"},
         {"cheats/leaves_its_sums_to_the_copy_engine.cu", kAnywhere, "", true, "honest_bulk_stores.cu"},
         {"cheats/skips_rows_unless_it_is_traced.cu", kAnywhere, "never written"}});
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(what_behaves_only_while_it_is_checked_is_stopped_while_it_is_timed) {
  check({{"cheats/knows_the_benchmark.cu", {Stage::edge, Stage::measure}, "never written"},
         {"cheats/skips_rows_of_large_inputs.cu", {Stage::edge, Stage::measure}, "differs"},
         {"cheats/works_every_other_time.cu", kAnywhere, ""},
         {"cheats/counts_to_tell_timed_runs.cu", kAnywhere, "never written", true, "honest_softmax.cu"}});
  check_that_honest_work_passes();
}

BOOST_AUTO_TEST_CASE(a_declared_precision_is_what_a_kernel_may_round_to_and_no_lower_one) {
  Judge precision("tests/kernels/format/declared_precision",
                  {{"M", 1024}, {"N", 1024}, {"K", 512}, {"tf32", 1}});
  for (const auto& [file, words] : std::map<std::string, std::string>{{"honest_precision", ""},
                                                                      {"takes_tf32_unasked", "allowed"},
                                                                      {"takes_bf16_for_tf32", "allowed"},
                                                                      {"flushes_small_fp8", "allowed"}}) {
    const Evaluation e = precision.judge("precision/" + file + ".cu", Stage::edge);
    BOOST_TEST_MESSAGE("fate: precision/" << file << ".cu -> " << (e.measured() ? "passed " : "")
                                          << name_of(e.stage) << ": " << e.reason);
    BOOST_TEST(e.measured() == words.empty(), file << ": " << e.reason << "\n" << e.diagnostics);
    BOOST_TEST((e.reason + "\n" + e.diagnostics).find(words) != std::string::npos, e.diagnostics);
  }
}

BOOST_AUTO_TEST_CASE(no_kernel_in_the_folders_is_forgotten) {
  // The lists above and those of cuda_sanitizer name them all; a new kernel must be added to one of them.
  std::size_t count = 0;
  for (const char* folder : {"hostile", "cheats"})
    for (const auto& entry : fs::directory_iterator(kernels() / folder))
      count += entry.path().extension() == ".cu";
  BOOST_TEST(count == 53U);
}

BOOST_AUTO_TEST_SUITE_END()
