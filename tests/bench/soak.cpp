// SPDX-License-Identifier: Apache-2.0
// Runs 100,000 recorded evaluations through the real search, record and operators, with results that are
// looked up instead of measured. For every tenth of them prints memory and the engine's cost per evaluation
// (processor time and wall time; the times from one evaluation to the next are in bursts of those that are in
// flight, so their median says little without the mean), and how long `status` and `resume` take on
// the record.
//
//   bench-soak [evaluations] [folder]     a folder that already holds such a run: `status` and `resume` only
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/search/search.hpp"
#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  long size = 0, resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// The cost of one tenth of the evaluations.
class Tenth {
 public:
  explicit Tenth(std::int64_t evaluations) : size_(std::max<std::int64_t>(1, evaluations / 10)) {}

  void evaluated() {  // one device: never two calls at a time
    const auto now = std::chrono::steady_clock::now();
    if (count_ > 0) gaps_ms_.push_back(std::chrono::duration<double, std::milli>(now - last_).count());
    last_ = now;
    if (++count_ % size_ != 0) return;
    const double processor = processor_seconds();
    const double wall_ms = std::chrono::duration<double, std::milli>(now - began_).count();
    std::printf(
        "%8lld evaluations  %6.1f MiB  processor %.2f ms each  wall %.2f ms each  from one to the next p50 "
        "%.2f p95 %.2f ms\n",
        static_cast<long long>(count_), resident_mib(),
        1e3 * (processor - processor_before_) / static_cast<double>(size_),
        wall_ms / static_cast<double>(size_), quantile(gaps_ms_, 0.5), quantile(gaps_ms_, 0.95));
    std::fflush(stdout);
    processor_before_ = processor;
    began_ = now;
    gaps_ms_.clear();
  }

 private:
  std::int64_t size_, count_ = 0;
  double processor_before_ = processor_seconds();
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now(), last_{};
  std::vector<double> gaps_ms_;
};

double seconds_of(const std::function<void()>& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Five sources with eight knobs each: space enough for every step.
std::string wide_source(int number) {
  std::string source = softmax_source("softmax_wide" + std::to_string(number));
  const std::string knob = "  UNUSED: {values: [0, 1], default: 0}\n";
  std::string more;
  for (const char* name : {"K1", "K2", "K3", "K4"})
    more += std::string("  ") + name + ": {values: [1, 2, 3, 4, 5, 6, 7, 8], default: 1}\n";
  return source.replace(source.find(knob), knob.size(), more);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t target = argc > 1 ? std::atoll(argv[1]) : 100'000;
  const ScratchFolder scratch;
  const std::filesystem::path folder = argc > 2 ? std::filesystem::path(argv[2]) : scratch.path();
  Config config = softmax_config(
      folder / "config",
      {"budget.evaluations=" + std::to_string(target), "checkpoint.every=10m", "checkpoint.keep=1",
       "population.explore=0.9", "operators={tune: 1, crossover_knobs: 200}"});
  config.seeds.clear();
  for (int i = 0; i < 5; ++i) {
    const auto file = folder / "config" / ("wide" + std::to_string(i) + ".cpp");
    std::ofstream(file) << wide_source(i);
    config.seeds.push_back(file);
  }
  Runtime runtime;
  runtime.cache = folder / "cache";
  runtime.installation.tasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks";
  Tenth tenth(target);
  runtime.evaluator = [&](const Config&, const std::filesystem::path&) {
    Simulation simulation;
    simulation.samples = 60;
    simulation.noise = 0.02;
    simulation.on_evaluate = [&](const Variant&) { tenth.evaluated(); };
    return std::make_unique<SimulatedEvaluator>(simulation);
  };
  const std::atomic<bool> never{false};
  if (!std::filesystem::exists(folder / "run" / "run.db")) {
    const double total = seconds_of([&] {
      const auto outcome = begin_search(config, folder / "run", runtime, {}, never);
      if (!outcome) {
        std::printf("failed: %s\n", outcome.error().message.c_str());
        std::exit(1);
      }
      std::printf("%s; resident %.1f MiB\n", outcome->reason.c_str(), resident_mib());
    });
    std::printf("engine, record and simulation: %.3f ms for each evaluation, %.1f s in all\n",
                1e3 * total / static_cast<double>(target), total);
  }
  std::printf("record: %.1f MiB\n",
              static_cast<double>(std::filesystem::file_size(folder / "run" / "run.db")) / (1 << 20));

  std::int64_t recorded = 0;
  for (int i = 0; i < 3; ++i)
    std::printf("status: %.3f s\n", seconds_of([&] {
                  const auto record = Record::open(folder / "run");
                  const nlohmann::json json = summary_of(*record);
                  recorded = json.at("evaluations").get<std::int64_t>();
                  if (recorded < target) std::exit(1);
                }));
  for (int i = 0; i < 3; ++i) {
    // From the call to the first new proposal's evaluation.
    std::atomic<bool> stop{false};
    Runtime counting = runtime;
    const auto start = std::chrono::steady_clock::now();
    const double processor = processor_seconds();
    double until = 0.0, spent = 0.0;
    counting.evaluator = [&](const Config&, const std::filesystem::path&) {
      Simulation simulation;
      simulation.on_evaluate = [&](const Variant&) {
        if (stop.exchange(true)) return;
        until = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        spent = processor_seconds() - processor;
      };
      return std::make_unique<SimulatedEvaluator>(simulation);
    };
    const auto outcome = resume_search(
        folder / "run", {"budget.evaluations=" + std::to_string(recorded + 100)}, counting, {}, stop);
    if (!outcome) {
      std::printf("resume failed: %s\n", outcome.error().message.c_str());
      return 1;
    }
    std::printf("resume, until the first evaluation: %.3f s (%.3f s of processor time)\n", until, spent);
  }
  return 0;
}
