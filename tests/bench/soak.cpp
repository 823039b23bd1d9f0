// 100,000 recorded evaluations through the real search, record and operators, with results that are looked up
// and not measured. Prints memory at every 10,000 steps, what the engine costs for each evaluation, and how
// long `status` and `resume` take on the record.
//
//   bench-soak [evaluations] [folder]
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/search.hpp"
#include "engine/store/record.hpp"
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
  Config config = softmax_config(folder / "config",
                                 {"budget.evaluations=" + std::to_string(target), "checkpoint.every=60s",
                                  "population.explore=0.9", "operators={tune: 1, crossover_knobs: 200}"});
  config.seeds.clear();
  for (int i = 0; i < 5; ++i) {
    const auto file = folder / "config" / ("wide" + std::to_string(i) + ".cpp");
    std::ofstream(file) << wide_source(i);
    config.seeds.push_back(file);
  }
  Surface surface;
  surface.installation.tasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks";
  surface.evaluator = [](const Config&, const std::filesystem::path&) {
    Simulation simulation;
    simulation.samples = 60;
    simulation.noise = 0.02;
    return std::make_unique<SimulatedEvaluator>(simulation);
  };
  std::int64_t shown = -1;
  Faces faces;
  const auto began = std::chrono::steady_clock::now();
  auto last = began;
  faces.progress = [&](const Progress& p) {
    if (p.evaluations / 10'000 == shown) return;
    shown = p.evaluations / 10'000;
    const auto now = std::chrono::steady_clock::now();
    std::printf("%8lld evaluations  %7.1f MiB  %6.1f s since the line before\n",
                static_cast<long long>(p.evaluations), resident_mib(),
                std::chrono::duration<double>(now - last).count());
    std::fflush(stdout);
    last = now;
  };
  const std::atomic<bool> never{false};
  const double total = seconds_of([&] {
    const auto outcome = begin_search(config, folder / "run", surface, faces, never);
    if (!outcome) {
      std::printf("failed: %s\n", outcome.error().message.c_str());
      std::exit(1);
    }
    std::printf("%s; resident %.1f MiB\n", outcome->reason.c_str(), resident_mib());
  });
  std::printf("engine, record and simulation: %.3f ms for each evaluation\n",
              1e3 * total / static_cast<double>(target));
  std::printf("record: %.1f MiB\n",
              static_cast<double>(std::filesystem::file_size(folder / "run" / "run.db")) / (1 << 20));

  for (int i = 0; i < 3; ++i)
    std::printf("status: %.3f s\n", seconds_of([&] {
                  const auto record = Record::open(folder / "run");
                  const nlohmann::json json = record->summary();
                  if (json.at("evaluations").get<std::int64_t>() != target) std::exit(1);
                }));
  for (int i = 0; i < 3; ++i) {
    // From the call to the first new proposal's evaluation.
    std::atomic<bool> stop{false};
    Surface counting = surface;
    const auto start = std::chrono::steady_clock::now();
    double until = 0.0;
    counting.evaluator = [&](const Config&, const std::filesystem::path&) {
      Simulation simulation;
      simulation.on_evaluate = [&](const Variant&) {
        if (!stop.exchange(true))
          until = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      };
      return std::make_unique<SimulatedEvaluator>(simulation);
    };
    const auto outcome = resume_search(folder / "run", {"budget.evaluations=" + std::to_string(target + 100)},
                                       counting, {}, stop);
    if (!outcome) {
      std::printf("resume failed: %s\n", outcome.error().message.c_str());
      return 1;
    }
    std::printf("resume, until the first evaluation: %.3f s\n", until);
  }
  return 0;
}
