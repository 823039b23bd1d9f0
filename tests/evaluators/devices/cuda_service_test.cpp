// SPDX-License-Identifier: Apache-2.0
// The compile service with cuda workers, as the engine sees it.
#include "evaluators/worker/services.hpp"

#include <set>

#include "support/contains.hpp"
#include "support/cuda_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cuda_test;
using cultivar::testing::contains;

namespace {

ServiceOptions options_for(const std::string& task, int workers, double deadline_s) {
  ServiceOptions o;
  o.target = target_named("cuda");
  o.programs = CULTIVAR_BIN_DIR;
  o.cache = cache_folder;
  o.task_folder = source_folder / "configs/tasks" / task;
  o.compile_workers = workers;
  o.compile_deadline_s = deadline_s;
  return o;
}

Workload attention(double length) {
  Workload w;
  w.name = "S" + std::to_string(static_cast<int>(length));
  w.dtype = Dtype::bf16;
  w.values = {{"B", 1},  {"H", 2},      {"H_kv", 2},      {"S_q", length}, {"S_kv", length},
              {"D", 64}, {"causal", 0}, {"scale", 0.125}, {"window", 0},   {"softcap", 0}};
  return w;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_service, *needs_nvrtc())

BOOST_AUTO_TEST_CASE(a_variant_is_compiled_once_for_each_assignment_of_its_macros) {
  CompileService service(options_for("attention_forward", 2, 60.0));
  const Variant variant = kernel("mma_sync.cu");
  const auto compiled = service.compile(variant, {attention(256), attention(512)}, Breadth::everything);
  BOOST_REQUIRE_MESSAGE(compiled, (compiled ? "" : compiled.error().diagnostics));
  BOOST_TEST(compiled->binary(macros(variant, task_named("attention_forward"), attention(256))) != nullptr);
  std::set<std::string> codes;
  for (const Binary& b : compiled->binaries) {
    BOOST_TEST(fs::exists(b.path));
    codes.insert(b.machine_code);
  }
  BOOST_TEST(codes.size() == 2u);  // bf16 and f16
  BOOST_TEST(contains(service.compiler_identity(), "NVRTC "));
}

BOOST_AUTO_TEST_CASE(a_refused_variant_is_a_rejection_with_words) {
  CompileService service(options_for("attention_forward", 1, 60.0));
  const auto compiled = service.compile(kernel("refused/serialised_wgmma.cu"), {attention(256)});
  BOOST_REQUIRE(!compiled.has_value());
  BOOST_TEST((compiled.error().stage == Stage::screen));
  BOOST_TEST(contains(compiled.error().reason, "wgmma is serialized"), compiled.error().reason);
  BOOST_TEST(!compiled.error().worker_lost);
}

BOOST_AUTO_TEST_CASE(what_no_card_could_launch_is_refused_without_one) {
  CompileService service(options_for("softmax", 1, 60.0));
  Workload w;
  w.name = "w";
  w.values = {{"R", 4}, {"C", 100}};
  const auto compiled = service.compile(kernel("refused/more_threads_than_it_promises.cu"), {w});
  BOOST_REQUIRE(!compiled.has_value());
  BOOST_TEST((compiled.error().stage == Stage::screen));
  BOOST_TEST(contains(compiled.error().reason, "no card can launch the variant on w"),
             compiled.error().reason);
  BOOST_TEST(contains(compiled.error().diagnostics, "__launch_bounds__ allows at most 64"),
             compiled.error().diagnostics);
}

BOOST_AUTO_TEST_CASE(a_task_says_how_much_may_be_spilled) {
  const FreshCache copy("cuda-task");
  fs::copy(source_folder / "configs/tasks/softmax", copy.folder, fs::copy_options::recursive);
  std::ofstream(copy.folder / "task.yaml", std::ios::app) << "\nlimits: {spill_bytes: 100000}\n";
  Workload w;
  w.name = "w";
  w.values = {{"R", 4}, {"C", 100}};
  ServiceOptions generous = options_for("softmax", 1, 60.0);
  BOOST_TEST(!CompileService(generous).compile(kernel("refused/spills.cu"), {w}).has_value());
  generous.task_folder = copy.folder;
  const auto compiled = CompileService(generous).compile(kernel("refused/spills.cu"), {w});
  BOOST_TEST(compiled.has_value(), (compiled ? "" : compiled.error().reason));
}

BOOST_AUTO_TEST_CASE(a_compile_that_does_not_end_costs_its_deadline_and_no_more) {
  CompileService service(options_for("softmax", 1, 2.0));
  Workload w;
  w.name = "w";
  w.values = {{"R", 4}, {"C", 100}};
  const auto start = std::chrono::steady_clock::now();
  const auto bomb = service.compile(kernel("refused/compile_bomb.cu"), {w});
  BOOST_REQUIRE(!bomb.has_value());
  BOOST_TEST((std::chrono::steady_clock::now() - start < std::chrono::seconds(60)));
  BOOST_TEST((bomb.error().stage == Stage::compile));
  BOOST_TEST(!bomb.error().worker_lost);  // the worker itself is well, and goes on
}

BOOST_AUTO_TEST_SUITE_END()
