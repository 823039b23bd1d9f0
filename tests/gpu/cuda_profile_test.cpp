// SPDX-License-Identifier: Apache-2.0
// runs alone
// Profiles of the attention seeds on a real GPU, through the device worker as the engine requests them:
// counters, stall reasons by source line, and the report.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "evaluators/devices/cuda/code/launch_rules.hpp"
#include "evaluators/devices/cuda/code/metric_sets.hpp"
#include "evaluators/devices/cuda/run/driver.hpp"
#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/worker/services.hpp"
#include "gpu/gpu_bench.hpp"

using namespace cultivar;
using namespace cultivar::gpu_test;

namespace {

ServiceOptions service_options() {
  ServiceOptions options;
  options.target = target_named("cuda");
  options.programs = testing::programs_folder();
  options.cache = testing::tests_cache();
  options.task_folder = testing::source_folder() / "configs/tasks/attention_forward";
  options.compile_workers = 2;
  return options;
}

const Task& task() {
  static const Task loaded = load_task(service_options().task_folder);
  return loaded;
}

// The cheapest of avo_mha that is not causal: the naive seed must end within the deadline of a run.
const Workload& workload() {
  const auto& all = task().workloads("avo_mha")->workloads;
  return *std::min_element(all.begin(), all.end(), [](const Workload& a, const Workload& b) {
    const auto cost = [](const Workload& w) {
      return task().flops(w) + (w.values.at("causal") != 0.0 ? 1e30 : 0.0);
    };
    return cost(a) < cost(b);
  });
}

struct Profiled {
  Profile profile;
  int source_lines = 0;
};

const Profiled& profiled(const std::string& seed) {
  static std::map<std::string, Profiled> known;
  if (const auto found = known.find(seed); found != known.end()) return found->second;
  static CompileService compiler(service_options());
  static DeviceService device(service_options());
  const Variant variant = load_variant(task().folder / "seeds" / (seed + ".cu"), task());
  auto compiled = compiler.compile(variant, {workload()});
  BOOST_REQUIRE_MESSAGE(compiled,
                        (compiled ? "" : compiled.error().reason + "\n" + compiled.error().diagnostics));
  ProfileRequest request;
  request.variant = std::move(*compiled);
  request.workload = workload();
  request.full = true;
  const auto start = Clock::now();
  const auto partial = device.profile(request);
  BOOST_REQUIRE_MESSAGE(partial, (partial ? "" : partial.error().text()));
  BOOST_REQUIRE_MESSAGE(
      !partial->rejection,
      (partial->rejection ? partial->rejection->reason + "\n" + partial->rejection->diagnostics : ""));
  BOOST_TEST_MESSAGE(
      "profile of " << seed << " took " << std::chrono::duration<double>(Clock::now() - start).count()
                    << " s, " << partial->profile.passes << " passes (" << partial->profile.replay << ")\n"
                    << report_text(partial->profile));
  Profiled result{partial->profile,
                  1 + static_cast<int>(std::count(variant.source.begin(), variant.source.end(), '\n'))};
  return known[seed] = std::move(result);
}

const char* const seeds[] = {"cuda_naive", "cuda_mma", "cuda_wgmma"};

bool no_permission(const Profile& p) {
  return std::any_of(p.missing.begin(), p.missing.end(),
                     [](const std::string& why) { return why.find("ERR_NVGPUCTRPERM") != why.npos; });
}

double counter(const Profile& p, const std::string& key) {
  const KernelProfile* kernel = main_kernel(p);
  BOOST_REQUIRE(kernel != nullptr);
  const auto found = kernel->counters.find(key);
  return found == kernel->counters.end() ? std::nan("") : found->second;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_profile, *needs_a_gpu())

BOOST_AUTO_TEST_CASE(every_counter_of_the_full_set_comes_back_and_the_outputs_were_right) {
  for (const char* seed : seeds) {
    const Profile& p = profiled(seed).profile;
    if (no_permission(p)) continue;  // said in the report; nothing else can be asked for
    for (const std::string& why : p.missing) BOOST_ERROR(seed << ": " << why);
    for (const Counter& known : counters())
      if (known.everywhere)
        BOOST_TEST(std::isfinite(counter(p, std::string(known.key))), seed << " " << known.key);
    for (const KernelProfile& kernel : p.kernels)
      for (const auto& [key, value] : kernel.counters)
        if (key.ends_with("_pct"))
          BOOST_TEST((value >= 0.0 && value <= 105.0), seed << " " << key << " " << value);
    BOOST_TEST(p.median_us > 0.0);
    // Slower than when it was timed (clocks are not raised for a counted run), but the same kernel.
    BOOST_TEST(counter(p, "duration_ns") > 0.5e3 * p.median_us, seed);
    BOOST_TEST(counter(p, "duration_ns") < 4e3 * p.median_us, seed);
  }
}

BOOST_AUTO_TEST_CASE(the_tensor_pipe_is_busier_the_better_the_kernel) {
  if (no_permission(profiled("cuda_naive").profile)) return;
  const double naive = counter(profiled("cuda_naive").profile, "tensor_pct"),
               mma = counter(profiled("cuda_mma").profile, "tensor_pct"),
               wgmma = counter(profiled("cuda_wgmma").profile, "tensor_pct");
  BOOST_TEST_MESSAGE("tensor pipe: naive " << naive << " %, mma " << mma << " %, wgmma " << wgmma << " %");
  BOOST_TEST(naive < 1.0);
  BOOST_TEST(mma > 5.0);
  BOOST_TEST(wgmma > mma);
}

BOOST_AUTO_TEST_CASE(samples_fall_on_lines_of_the_kernels_source) {
  for (const char* seed : seeds) {
    const Profiled& found = profiled(seed);
    if (no_permission(found.profile)) continue;
    const KernelProfile* kernel = main_kernel(found.profile);
    BOOST_REQUIRE(kernel != nullptr);
    BOOST_TEST(kernel->samples > 1000U, seed);
    BOOST_REQUIRE(!kernel->lines.empty());
    std::uint64_t told = 0, in_source = 0;
    for (const LineStalls& line : kernel->lines) {
      told += line.samples;
      if (line.line > 0) in_source += line.samples;
      BOOST_TEST(line.line <= found.source_lines, seed);
      if (line.line > 0) BOOST_TEST(!line.text.empty(), seed << " line " << line.line);
    }
    BOOST_TEST(static_cast<double>(in_source) > 0.9 * static_cast<double>(told), seed);
    BOOST_TEST(!stall_shares(*kernel).empty(), seed);
  }
}

BOOST_AUTO_TEST_CASE(occupancy_by_the_rules_is_what_the_driver_says) {
  const auto driver = cuda::load_driver();
  BOOST_REQUIRE(driver.has_value());
  const char* const source = R"(extern "C" __global__ void k() {
    extern __shared__ float shared[];
    volatile float* s = shared;
    s[threadIdx.x] = 1.0f;
    __syncthreads();
    s[blockDim.x - 1 - threadIdx.x] = 2.0f; })";
  Variant variant;
  variant.source = source;
  variant.manifest.target = target_named("cuda");
  variant.manifest.launch.emplace_back().kernel = "k";
  const auto binary = compiler().compile(variant, {}, 60.0);
  BOOST_REQUIRE_MESSAGE(binary, (binary ? "" : binary.error().reason));
  std::ifstream file(binary->path, std::ios::binary);
  const std::string code(std::istreambuf_iterator<char>(file), {});
  (void)device();  // its context is current
  cuda::Module loaded = nullptr;
  BOOST_REQUIRE((*driver)->ModuleLoadData(&loaded, code.data()) == cuda::result::success);
  cuda::Function function = nullptr;
  BOOST_REQUIRE((*driver)->ModuleGetFunction(&function, loaded, "k") == cuda::result::success);
  int registers = 0;
  (*driver)->FuncGetAttribute(&registers, cuda::function_attribute::registers, function);
  const auto most = static_cast<int>(device().facts().at("smem_max"));
  BOOST_REQUIRE((*driver)->FuncSetAttribute(function, cuda::function_attribute::max_dynamic_shared, most) ==
                cuda::result::success);
  const MultiprocessorLimits limits = limits_of(device().facts());
  for (const int threads : {32, 96, 128, 384, 640, 1024})
    for (const int shared : {0, 1024, 10000, 40000, 76800, 100000, 115000, 163840, most}) {
      int blocks = -1;
      (*driver)->OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads,
                                                           static_cast<std::size_t>(shared));
      BOOST_TEST(occupancy({threads, registers, shared}, limits).blocks == blocks, threads << " " << shared);
    }
  (*driver)->ModuleUnload(loaded);
}

BOOST_AUTO_TEST_SUITE_END()
