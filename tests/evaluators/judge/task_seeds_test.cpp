// SPDX-License-Identifier: Apache-2.0
// The tasks of models' operators: their checks refuse every wrong kernel in each dtype of a GPU, and their
// seeds plan every shape that they claim.
#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "evaluators/check/oracle.hpp"
#include "evaluators/judge/controls.hpp"
#include "evaluators/variant/example.hpp"
#include "support/places.hpp"
#include "support/words.hpp"

using namespace cultivar;
using cultivar::testing::words;
namespace fs = std::filesystem;

namespace {

const fs::path tasks = CULTIVAR_SOURCE_DIR "/configs/tasks";
const std::vector<std::string> memory_bound = {
    "softmax",        "rmsnorm", "add_rmsnorm",   "layernorm",  "silu_mul",         "gelu",
    "transpose",      "rope",    "cross_entropy", "row_reduce", "rmsnorm_backward", "depthwise_conv",
    "group_norm_silu"};
const std::vector<std::string> products = {"linear", "swiglu_up"};
const std::vector<std::string> attention = {"attention_backward", "attention_paged"};

std::vector<std::string> all() {
  std::vector<std::string> names = memory_bound;
  for (const auto* more : {&products, &attention}) names.insert(names.end(), more->begin(), more->end());
  return names;
}

std::vector<fs::path> seeds(const std::string& task) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(tasks / task / "seeds"))
    if (entry.path().extension() != ".md") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

const Facts& facts_of(const Variant& variant) {
  static const Facts opencl = target_named("opencl")->stand_in_facts(2);
  if (name_of(variant.manifest.target) == "opencl") return opencl;
  return name_of(variant.manifest.target) == "cuda" ? example::cuda_facts : example::cpu_facts;
}

// Every listed shape in each dtype of the task, and the workloads of the sets in their own.
std::vector<Workload> shapes(const Task& task) {
  std::vector<Workload> result;
  for (const auto* listed : {&task.smoke, &task.sweep, &task.stress_shapes, &task.edge})
    for (Workload workload : *listed)
      for (const Dtype dtype : task.dtypes) workload.dtype = dtype, result.push_back(workload);
  for (const WorkloadSet& set : task.workload_sets)
    result.insert(result.end(), set.workloads.begin(), set.workloads.end());
  return result;
}

void plan_all(const Task& task, const Variant& variant) {
  for (const Workload& workload : shapes(task)) {
    if (!claims(variant, task, workload)) continue;
    const std::string where = fmt::format("{} {}", variant.manifest.name, workload.name);
    const auto held = check_constraints(variant, task, workload, facts_of(variant));
    BOOST_REQUIRE_MESSAGE(held, where + ": " + (held ? "" : held.error().message));
    const auto plan = make_plan(variant, task, workload, facts_of(variant));
    BOOST_REQUIRE_MESSAGE(plan, where + ": " + (plan ? "" : plan.error().message));
    if (name_of(variant.manifest.target) != "cuda") continue;
    const auto block = plan->kernels.front().launch.three("block");
    const std::uint64_t threads = block[0] * block[1] * block[2];
    BOOST_TEST((threads >= 32 && threads <= 1024 && threads % 32 == 0),
               where << ": " << threads << " threads");
  }
}

// Whether a seed for this target, other than the naive one, claims each workload of the set.
bool covered(const Task& task, const std::string& set) {
  return std::ranges::all_of(task.workloads(set)->workloads, [&](const Workload& workload) {
    return std::ranges::any_of(seeds(task.name), [&](const fs::path& path) {
      const Variant variant = load_variant(path, task);
      return path.stem() != "cuda_naive" && name_of(variant.manifest.target) == "cuda" &&
             claims(variant, task, workload);
    });
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(task_seeds)

BOOST_AUTO_TEST_CASE(seeds_plan_every_shape_that_they_claim) {
  for (const std::string& name : all()) {
    const Task task = load_task(tasks / name);
    for (const fs::path& path : seeds(name)) plan_all(task, load_variant(path, task));
  }
}

BOOST_AUTO_TEST_CASE(a_good_seed_claims_every_workload_that_is_timed_on_a_gpu) {
  for (const std::string& name : all()) {
    const Task task = load_task(tasks / name);
    for (const char* set : {"quick", "gpu", "holdout"}) BOOST_TEST(covered(task, set), name << " " << set);
  }
  for (const std::string& name : products)
    BOOST_TEST(covered(load_task(tasks / name), "decode"), name << " decode");
}

BOOST_AUTO_TEST_CASE(seeds_that_hold_rows_in_registers_plan_every_shape_at_both_ends_of_their_tunables) {
  for (const char* name : {"softmax", "rmsnorm", "add_rmsnorm", "layernorm"}) {
    const Task task = load_task(tasks / name);
    const fs::path path = tasks / name / "seeds/cuda_rows.cu";
    for (const std::int64_t vectors : {1, 4})
      for (const std::int64_t persist : {0, 8})
        plan_all(task, load_variant(path, task, {{"VECTORS", vectors}, {"PERSIST", persist}}));
    plan_all(task, load_variant(path, task, {{"BLOCK", std::int64_t{128}}, {"WIDE", std::int64_t{256}}}));
    plan_all(task, load_variant(path, task, {{"BLOCK", std::int64_t{512}}, {"SPREAD", std::int64_t{0}}}));
  }
}

BOOST_AUTO_TEST_CASE(seeds_for_images_plan_every_shape_at_both_ends_of_their_tunables) {
  const std::pair<const char*, const char*> both[] = {{"depthwise_conv", "cuda_tiles.cu"},
                                                      {"group_norm_silu", "cuda_rows.cu"},
                                                      {"group_norm_silu", "cuda_split.cu"}};
  for (const auto& [name, seed] : both) {
    const Task task = load_task(tasks / name);
    const fs::path path = tasks / name / "seeds" / seed;
    Configuration least, greatest;
    for (const Tunable& tunable : load_variant(path, task).manifest.tunables) {
      least[tunable.name] = tunable.values.front();
      greatest[tunable.name] = tunable.values.back();
    }
    for (const Configuration& end : {least, greatest}) plan_all(task, load_variant(path, task, end));
  }
}

BOOST_AUTO_TEST_CASE(checks_refuse_every_wrong_kernel_in_each_dtype_of_a_gpu) {
  for (const std::string& name : all()) {
    const Task task = load_task(tasks / name);
    const auto oracle = open_reference(task, testing::tests_cache());
    BOOST_REQUIRE_MESSAGE(oracle, words(oracle));
    const auto fit = check_controls(task, *oracle, target_named("cuda"), 2);
    BOOST_TEST(fit.has_value(), words(fit));
  }
}

BOOST_AUTO_TEST_SUITE_END()
