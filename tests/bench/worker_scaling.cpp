// SPDX-License-Identifier: Apache-2.0
// How much device time one, two and four workers use in the same time, and what that costs the engine: the
// real search, record and operators; compilers take no time, and the devices are simulated (they sleep).
//
//   bench-worker-scaling [EVALUATION_S=1] [WALL_S=40]
#include <sys/resource.h>

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>

#include "engine/store/summary.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

}  // namespace

int main(int argc, char** argv) {
  const double evaluation_s = argc > 1 ? std::atof(argv[1]) : 1.0;
  const std::string wall = argc > 2 ? argv[2] : "40";
  const std::atomic<bool> never{false};
  double one = 0.0;
  for (const int workers : {1, 2, 4}) {
    ScratchFolder folder;
    Simulation simulation;
    simulation.device_workers = workers;
    simulation.evaluate_s = simulation.gate_s = evaluation_s;
    const Config config =
        softmax_config(folder.path() / "config",
                       {"budget.wall=" + wall + "s", fmt::format("evaluation.depth={}", 2 * workers),
                        "budget.evaluations=100000", "supervisor.active=false"});
    const double before = processor_seconds();
    const auto outcome =
        begin_search(config, folder.path() / "run", simulated_runtime(simulation), {}, never);
    if (!outcome) {
      fmt::print("{}\n", outcome.error().message);
      return 1;
    }
    const double used = processor_seconds() - before;
    const Summary summary = summary_of(*Record::open(folder.path() / "run"));
    const double busy = 3600.0 * summary.budget.at("device_hours").used / summary.elapsed_s;
    if (workers == 1) one = busy;
    fmt::print(
        "{} worker{}: {} measured, {} duels in {:.1f} s; devices busy {:.1f} %, {:.2f} x as much work as "
        "one; "
        "engine {:.2f} % of a core\n",
        workers, workers == 1 ? " " : "s", summary.measured, summary.duels, summary.elapsed_s,
        100.0 * busy / workers, busy / one, 100.0 * used / summary.elapsed_s);
    std::fflush(stdout);
  }
}
