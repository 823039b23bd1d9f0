// SPDX-License-Identifier: Apache-2.0
// Measures the cost of one evaluation by stage, through the real services and workers: bench-evaluation-cost
// TASK_FOLDER VARIANT WORKLOAD_SET [REPEATS [CACHE]]
#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "evaluators/variant/variant.hpp"
#include "evaluators/worker/services.hpp"

int main(int argc, char** argv) try {
  using namespace cultivar;
  if (argc < 4) {
    fmt::print(stderr, "usage: bench-evaluation-cost TASK_FOLDER VARIANT WORKLOAD_SET [REPEATS [CACHE]]\n");
    return 2;
  }
  const Task task = load_task(argv[1]);
  const Variant variant = load_variant(argv[2], task);
  const WorkloadSet* set = task.workloads(argv[3]);
  if (set == nullptr) throw InputError(fmt::format("{} has no workload set {}", task.name, argv[3]));
  const int repeats = argc > 4 ? std::stoi(argv[4]) : 3;
  ServiceOptions options;
  options.task_folder = argv[1];
  options.cache = argc > 5 ? std::filesystem::path(argv[5])
                           : std::filesystem::temp_directory_path() / "cultivar-evaluation-cost";
  options.compile_workers = 2;
  CompileService compiler(options);
  DeviceService device(options);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const auto compiled = compiler.compile(variant, set->workloads);
  if (!compiled) {
    fmt::print("rejected: {}\n{}\n", compiled.error().reason, compiled.error().diagnostics);
    return 1;
  }
  fmt::print("compiled {} binaries in {:.2f} s\n", compiled->binaries.size(), compiled->compile_seconds);
  const auto info = device.info();
  if (!info) {
    fmt::print("no device: {}\n", info.error().message);
    return 3;
  }
  fmt::print(
      "{} ({})\nceilings: {:.4g} GFLOP/s, {:.4g} GB/s from memory, {:.4g} GB/s from cache, handshake {:.2f} "
      "us\n",
      info->description, info->isolation, info->ceilings.flops / 1e9, info->ceilings.bytes_per_second / 1e9,
      info->ceilings.cached_bytes_per_second / 1e9, info->ceilings.handshake_s * 1e6);
  fmt::print("worker up after {:.2f} s\n", elapsed());
  EvaluateRequest request;
  request.variant = *compiled;
  request.workloads = set->workloads;
  for (int i = 0; i < repeats; ++i) {
    const double before = elapsed();
    const auto evaluation = device.evaluate(request);
    if (!evaluation) {
      fmt::print("no evaluation: {}\n", evaluation.error().message);
      return 3;
    }
    fmt::print("evaluation {:.2f} s: checks {:.2f} s, measuring {:.2f} s\n", elapsed() - before,
               evaluation->check_seconds, evaluation->measure_seconds);
    if (!evaluation->measured()) {
      fmt::print("rejected at {}: {}\n{}\n", name_of(evaluation->stage), evaluation->reason,
                 evaluation->diagnostics);
      return 1;
    }
    fmt::print("fitness {:.4g} {}\n", evaluation->fitness, evaluation->unit);
    for (const WorkloadResult& w : evaluation->workloads)
      fmt::print("  {}: {} samples, median {:.1f} us [{:.1f}, {:.1f}], {:.4g} {}\n", w.workload,
                 w.samples.size(), w.median_us, w.q1_us, w.q3_us, w.value, w.unit);
  }
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
