// SPDX-License-Identifier: Apache-2.0
// Evaluates every honest cpu kernel of the repository (the tasks' seeds and tests/kernels/honest_*.cpp) again
// and again beside threads that keep the cores busy, and counts by stage and reason those that are refused:
// none may be.
//
//   bench-honest-under-load [SECONDSs or EVALUATIONS [spinning threads]]      default: 600s, 8 threads
//
// One workload of a size that a search would use is timed with few samples, so that many evaluations fit in
// the time; all check stages run in full. The threads spin on the cores that the program may use: on a large
// machine, start one for each pair of cores (taskset), as tests/gpu/run.sh does.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "evaluators/variant/variant.hpp"
#include "evaluators/worker/services.hpp"
#include "support/places.hpp"

using namespace cultivar;
namespace fs = std::filesystem;

namespace {

// About 20 ms of work for a plain kernel on one slow core.
const std::map<std::string, std::map<std::string, double>> kSizes = {
    {"softmax", {{"R", 4096}, {"C", 1024}}},
    {"matmul", {{"M", 128}, {"N", 768}, {"K", 512}}},
    {"attention_forward", {{"B", 1}, {"H", 4}, {"S_q", 512}, {"D", 64}}}};

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Load {
 public:
  explicit Load(int threads) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this] {
        for (volatile std::uint64_t n = 0; !stop_.load(std::memory_order_relaxed);) n = n + 1;
      });
  }
  ~Load() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

struct Bench {  // one task
  explicit Bench(const fs::path& folder) : task(load_task(folder)) {
    options.programs = testing::programs_folder();
    options.task_folder = folder;
    options.cache = testing::tests_cache();
    compiler = std::make_unique<CompileService>(options);
    device = std::make_unique<DeviceService>(options);
    const auto size = kSizes.find(task.name);
    if (size == kSizes.end()) throw std::runtime_error("no size for the task " + task.name);
    for (const WorkloadSet& set : task.workload_sets)
      if (set.name == "cpu_quick") workload = set.workloads.front();
    for (const auto& [name, value] : size->second) workload.values[name] = value;
    if (workload.values.contains("S_kv")) workload.values["S_kv"] = workload.values["S_q"];
    if (workload.values.contains("H_kv")) workload.values["H_kv"] = workload.values["H"];
    workload.name = "load";
  }
  Task task;
  ServiceOptions options;
  std::unique_ptr<CompileService> compiler;
  std::unique_ptr<DeviceService> device;
  Workload workload;
};

struct Kernel {
  std::string name;
  Bench* bench;
  Compiled compiled;
  int evaluations = 0, refused = 0, unfinished = 0;
  double longest_s = 0.0;
};

}  // namespace

int main(int argc, char** argv) try {
  const std::string limit = argc > 1 ? argv[1] : "600s";
  const bool by_time = limit.ends_with('s');
  const double limit_s = by_time ? std::stod(limit) : 1e9;
  const int most = by_time ? std::numeric_limits<int>::max() : std::stoi(limit);
  const int spinning = argc > 2 ? std::stoi(argv[2]) : 8;
  const fs::path source = testing::source_folder();
  std::vector<std::unique_ptr<Bench>> benches;
  std::vector<Kernel> kernels;
  const auto add = [&](Bench& bench, const fs::path& file) {
    auto made = bench.compiler->compile(load_variant(file, bench.task), {bench.workload});
    if (!made) throw std::runtime_error(file.string() + ": " + made.error().reason);
    kernels.push_back({file.lexically_relative(source).string(), &bench, std::move(*made)});
  };
  for (const char* task : {"softmax", "matmul", "attention_forward"}) {
    Bench& bench = *benches.emplace_back(std::make_unique<Bench>(source / "configs/tasks" / task));
    for (const auto& entry : fs::directory_iterator(source / "configs/tasks" / task / "seeds"))
      if (entry.path().extension() == ".cpp") add(bench, entry.path());
    if (std::string_view(task) != "softmax") continue;
    for (const char* file : {"honest_softmax.cpp", "honest_waits.cpp", "slow_softmax.cpp"})
      add(bench, source / "tests/kernels" / file);
  }
  for (const auto& bench : benches)
    if (const auto info = bench->device->info(); !info) throw std::runtime_error(info.error().message);

  const Load load(spinning);
  std::map<std::string, int> reasons;
  int evaluations = 0;
  double shown = seconds();
  for (const double end = seconds() + limit_s; seconds() < end && evaluations < most;)
    for (Kernel& kernel : kernels) {
      EvaluateRequest request;
      request.variant = kernel.compiled;
      request.workloads = {kernel.bench->workload};
      request.sampling.screening_samples = request.sampling.min_samples = 5;
      const double before = seconds();
      const auto evaluation = kernel.bench->device->evaluate(request);
      kernel.longest_s = std::max(kernel.longest_s, seconds() - before);
      ++evaluations, ++kernel.evaluations;
      if (!evaluation) {
        ++kernel.unfinished, ++reasons[kernel.name + ": no worker: " + evaluation.error().message];
      } else if (!evaluation->measured()) {
        ++kernel.refused;
        const std::string reason =
            fmt::format("{}: {}: {}", kernel.name, name_of(evaluation->stage), evaluation->reason);
        if (++reasons[reason] == 1) fmt::print("{}\n{}\n", reason, evaluation->diagnostics);
      }
      if (seconds() - shown > 30.0) {
        shown = seconds();
        fmt::print("{} evaluations\n", evaluations);
        std::fflush(stdout);
      }
      if (seconds() > end || evaluations == most) break;
    }
  int refused = 0;
  for (const Kernel& kernel : kernels) {
    fmt::print("{:50} {:5} evaluations, {} refused, {} unfinished, longest {:.1f} s\n", kernel.name,
               kernel.evaluations, kernel.refused, kernel.unfinished, kernel.longest_s);
    refused += kernel.refused + kernel.unfinished;
  }
  for (const auto& [reason, count] : reasons) fmt::print("{} x {}\n", count, reason);
  fmt::print("{} evaluations beside {} spinning threads: {} refused\n", evaluations, spinning, refused);
  return refused == 0 ? 0 : 1;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
