// SPDX-License-Identifier: Apache-2.0
// runs alone
// cuBLAS, cuDNN, FlashAttention-3 and PyTorch as contenders on a real GPU: correct on every check shape that
// they support, timed beside a seed; and a library that waits where it must not.
#include <map>

#include "evaluators/check/oracle.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/contenders/library.hpp"
#include "evaluators/judge/contender_side.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/interpreter.hpp"
#include "evaluators/worker/services.hpp"
#include "gpu/gpu_bench.hpp"
#include "support/contains.hpp"
#include "support/words.hpp"

using cultivar::testing::words;
using namespace cultivar;
namespace fs = std::filesystem;

namespace {

fs::path folder_of(const std::string& task) {
  return testing::source_folder() / "configs/tasks" / task;
}

KnownContender known(const std::string& name) {
  for (const KnownContender& each : known_contenders(testing::programs_folder()))
    if (each.name == name) return each;
  return {};
}

// Compares its output with the oracle on every check shape and the workloads of `quick`, in this
// process.
void check_everywhere(const std::string& name, std::size_t least_supported, const std::string& of_task = "") {
  const KnownContender contender = known(name);
  if (contender.library.empty()) {
    BOOST_TEST_MESSAGE("contender " << name << ": absent: " << contender.absent);
    return;
  }
  const Task task = load_task(folder_of(of_task.empty() ? contender.tasks.front() : of_task));
  const auto oracle = open_reference(task, testing::tests_cache());
  BOOST_REQUIRE_MESSAGE(oracle, words(oracle));
  const auto library = ContenderLibrary::load(contender.library, task, target_named("cuda"));
  BOOST_REQUIRE_MESSAGE(library, words(library));
  const Compiled side = library_contender(name, {contender.library, contender.program}, target_named("cuda"));
  const CascadeSite site{gpu_test::device(), task, *oracle};
  std::vector<Workload> shapes;
  for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::edge})
    for (Workload& w : check_shapes(task, stage, target_named("cuda"))) shapes.push_back(std::move(w));
  for (const Workload& w : task.workloads("quick")->workloads) shapes.push_back(w);
  std::size_t right = 0, left_out = 0;  // left out: a part of the library that this build does not have
  std::map<std::string, int> refused;
  for (const Workload& w : shapes) {
    const auto wrong = check_contender(site, Stage::measure, side, w, 7);
    if (!wrong) {
      ++right;
    } else if (wrong->reason.starts_with("unsupported")) {
      const std::string text = wrong->diagnostics;
      ++refused[text.substr(text.find(": ") + 2, text.find('\n') - text.find(": ") - 2)];
      left_out += testing::contains(text, " is not built for ");
    } else {
      BOOST_ERROR(name << " on " << w.name << ": " << wrong->reason << "\n" << wrong->diagnostics);
    }
    BOOST_REQUIRE(gpu_test::device().usable());
  }
  BOOST_TEST_MESSAGE("contender " << name << ", " << library->version() << ": right on " << right << " of "
                                  << shapes.size() << " shapes");
  for (const auto& [why, count] : refused)
    BOOST_TEST_MESSAGE("contender " << name << " refuses " << count << ": " << why);
  BOOST_TEST(right > 0U);
  BOOST_TEST(right + left_out >= least_supported);
}

// Beside a seed, through the workers.
void time_beside(const std::string& name, const std::string& seed, const std::string& set,
                 const std::string& task_name) {
  const KnownContender contender = known(name);
  if (contender.library.empty()) return;
  if (!contender.program.empty())
    if (const auto found = find_interpreter(ServiceOptions{}.python, PythonNeeds::imported_torch); !found) {
      BOOST_TEST_MESSAGE("contender " << name << ": absent: " << words(found));
      return;
    }
  ServiceOptions options;
  options.target = target_named("cuda");
  options.programs = testing::programs_folder();
  options.cache = testing::tests_cache();
  options.task_folder = folder_of(task_name);
  const Task task = load_task(options.task_folder);
  CompileService compiler(options);
  DeviceService device(options);
  EvaluateRequest request;
  request.workloads = task.workloads(set)->workloads;
  auto compiled =
      compiler.compile(load_variant(options.task_folder / "seeds" / seed, task), request.workloads);
  BOOST_REQUIRE_MESSAGE(compiled, words(compiled));
  request.variant = *compiled;
  request.sampling.max_samples = 12;
  request.contenders.emplace_back(
      name, library_contender(name, {contender.library, contender.program}, target_named("cuda")));
  const auto e = device.evaluate(request);
  BOOST_REQUIRE_MESSAGE(e, words(e));
  BOOST_TEST(e->measured(), e->reason << "\n" << e->diagnostics);
  for (const WorkloadResult& w : e->workloads) {
    BOOST_TEST(w.ratios.count(name) == 1U, e->diagnostics);
    if (w.ratios.count(name) == 0) continue;
    BOOST_TEST_MESSAGE("beside: " << seed << " on " << w.workload << " " << w.median_us << " us, " << w.value
                                  << " " << w.unit << "; " << name << " " << w.value / w.ratios.at(name)
                                  << " " << w.unit);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_contender, *gpu_test::needs_a_gpu())

BOOST_AUTO_TEST_CASE(cublas_is_right_on_every_shape_that_it_takes) {
  check_everywhere("cublas", 30);
}

BOOST_AUTO_TEST_CASE(cudnn_is_right_on_every_shape_that_it_takes) {
  check_everywhere("cudnn", 20);
}

BOOST_AUTO_TEST_CASE(flash_attention_3_is_right_on_every_shape_that_it_takes) {
  check_everywhere("flash_attention_3", 50);
  check_everywhere("flash_attention_3", 50, "attention_backward");
}

BOOST_AUTO_TEST_CASE(cublas_is_timed_beside_a_seed) {
  time_beside("cublas", "cuda_naive.cu", "quick", "matmul");
}

BOOST_AUTO_TEST_CASE(cudnn_is_timed_beside_a_seed) {
  time_beside("cudnn", "cuda_wgmma.cu", "quick", "attention_forward");
}

BOOST_AUTO_TEST_CASE(flash_attention_3_is_timed_beside_a_seed) {
  time_beside("flash_attention_3", "cuda_wgmma.cu", "quick", "attention_forward");
  time_beside("flash_attention_3", "cuda_wgmma.cu", "quick", "attention_backward");
}

BOOST_AUTO_TEST_CASE(pytorch_is_timed_beside_a_seed_on_the_workers_stream) {
  time_beside("torch", "cuda_naive.cu", "quick", "matmul");
  time_beside("torch", "cuda_wgmma.cu", "quick", "attention_forward");
}

BOOST_AUTO_TEST_CASE(pytorch_compiled_is_timed_beside_a_seed) {
  time_beside("torch_compile", "cuda_naive.cu", "quick", "matmul");
}

BOOST_AUTO_TEST_CASE(a_library_that_waits_in_launch_is_skipped_and_the_variant_measured) {
  const fs::path cache = testing::tests_cache();
  fs::create_directories(cache);
  const fs::path made = cache / "libwaits.so";
  const std::string build = "c++ -shared -fPIC -O1 -I'" +
                            (testing::source_folder() / "evaluators/contenders").string() + "' '" +
                            (testing::source_folder() / "tests/kernels/contenders/waits.cpp").string() +
                            "' -o '" + made.string() + "' -ldl";
  BOOST_REQUIRE(std::system(build.c_str()) == 0);
  ServiceOptions options;
  options.target = target_named("cuda");
  options.programs = testing::programs_folder();
  options.cache = cache;
  options.task_folder = folder_of("softmax");
  options.run_deadline_s = 3.0;
  const Task task = load_task(options.task_folder);
  CompileService compiler(options);
  DeviceService device(options);
  EvaluateRequest request;
  Workload w;
  w.name = "w";
  w.dtype = Dtype::f32;
  w.values = {{"R", 4096}, {"C", 1024}};
  request.workloads = {w};
  auto compiled =
      compiler.compile(load_variant(testing::source_folder() / "tests/kernels/cuda/honest_softmax.cu", task),
                       request.workloads);
  BOOST_REQUIRE_MESSAGE(compiled, words(compiled));
  request.variant = *compiled;
  request.sampling.max_samples = 6;
  request.contenders.emplace_back("waits", library_contender("waits", {made}, target_named("cuda")));
  const auto e = device.evaluate(request);
  BOOST_REQUIRE_MESSAGE(e, words(e));
  BOOST_TEST(e->measured(), e->reason << "\n" << e->diagnostics);
  BOOST_TEST_MESSAGE("waits: " << e->diagnostics);
  BOOST_TEST(e->diagnostics.find("contender waits: the worker was lost") != std::string::npos,
             e->diagnostics);
}

BOOST_AUTO_TEST_SUITE_END()
