// SPDX-License-Identifier: Apache-2.0
#include "support/own_bundle.hpp"

#include <atomic>
#include <stdexcept>

#include "engine/export/bundle.hpp"
#include "support/own_task.hpp"
#include "support/simulated_evaluator.hpp"

namespace cultivar::testing {

namespace fs = std::filesystem;

void write_own_task_for(const fs::path& folder, const std::string& workloads) {
  write_own_task(folder, "{evaluations: 1}");
  set_own_workloads(folder, workloads);
}

void export_own_kernel(const fs::path& folder, const std::string& kernel, const std::string& cover) {
  static const std::atomic<bool> never{false};
  const fs::path task = folder / "rms_norm";
  write_text(task / "seeds/exported.cpp", kernel);
  Runtime runtime;
  runtime.programs = CULTIVAR_BIN_DIR;
  runtime.cache = folder / "cache";
  runtime.installation.tasks = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks";
  Simulation simulation;
  simulation.facts = {{"num_cores", 2.0},
                      {"l1_bytes", 32768.0},
                      {"l2_bytes", 1048576.0},
                      {"l3_bytes", 33554432.0},
                      {"vector_bits", 256.0}};
  runtime.evaluator = [simulation](const Config&, const fs::path&) {
    return std::make_unique<SimulatedEvaluator>(simulation);
  };
  const Config config =
      parse_config("name: run\ntask: " + task.string() +
                       "\ntarget: cpu\nworkloads: small\nholdout: unseen\nseeds: [exported]\n"
                       "budget: {evaluations: 1}\n",
                   "test", folder, {}, runtime.installation);
  const auto outcome = begin_search(config, folder / "run", runtime, {}, never);
  if (!outcome) throw std::runtime_error(outcome.error().message);
  if (outcome->best == 0) throw std::runtime_error(outcome->reason);
  const auto record = Record::open(folder / "run");
  if (!record) throw std::runtime_error(record.error().message);
  const auto report = export_bundle({*record, 0, folder / "bundle", runtime, {}, nullptr, cover});
  if (!report) throw std::runtime_error(report.error().message);
}

}  // namespace cultivar::testing
