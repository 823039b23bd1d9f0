// The outcome of the cascade for one variant: rejected at a stage with diagnostics, or measured.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/statistics/bootstrap.hpp"

namespace cultivar {

enum class Stage {
  lint,
  compile,
  screen,
  smoke,
  sweep,
  stress,
  determinism,
  edge,
  measure,
  gate,
  profile,
  confirm
};
std::string_view name_of(Stage);
std::optional<Stage> stage_named(std::string_view);

// What the compiler said of one binary.
struct Resources {
  std::map<std::string, double>
      values;  // cpu: text_bytes, stack_bytes; cuda: registers, spill_bytes, shared_bytes, ...
};

struct Sample {
  double seconds = 0.0;    // handshake already subtracted
  double clock_mhz = 0.0;  // 0: unknown
  double temperature_c = 0.0, power_w = 0.0;
  std::uint64_t throttle = 0;    // reasons, NVML bits
  std::string disturbance = {};  // not empty: it does not count, and why; never kept
  // Whose doing that is: the kernel's, perhaps; a card's that must cool down; or a busy host's.
  enum class Disturber { kernel, device, host } disturber = Disturber::kernel;
};

struct WorkloadResult {
  std::string workload;
  std::vector<Sample> samples;  // every one of them checked
  double median_us = 0.0, q1_us = 0.0, q3_us = 0.0;
  double value = 0.0;  // GFLOPS (cpu), TFLOPS (cuda) or GB/s, of the median
  std::string unit;
  std::map<std::string, double> ratios;  // contender -> its median time / ours, interleaved
  std::int64_t discarded = 0;            // samples that did not count, because the device was disturbed
  std::map<std::string, Interval> ratio_intervals = {};  // of 95 %, by bootstrap; records of before have none
};

struct Evaluation {
  enum class Verdict { measured, rejected } verdict = Verdict::rejected;
  Stage stage = Stage::lint;  // the last stage reached: where it was rejected, or how far it was asked to go
  std::string reason;         // one line; empty when measured
  std::string diagnostics;    // everything a person or a model needs to repair it
  std::string machine_code;   // hash of the binaries, for novelty; empty before compile
  Resources resources;
  double fitness = 0.0;  // geometric mean of the workloads' values; 0 when rejected
  std::string unit;
  std::vector<WorkloadResult> workloads;
  std::uint64_t input_seed = 0;  // what the secret inputs were made from, so that a failure can be repeated
  double compile_seconds = 0.0, check_seconds = 0.0, measure_seconds = 0.0;
  bool worker_lost = false;  // the worker had to be replaced (crash, hang)
  bool late = false;         // rejected because a deadline passed: its own doing, or a busy machine's

  bool measured() const { return verdict == Verdict::measured; }
};

void to_json(nlohmann::json&, const Evaluation&);    // raw samples included
void from_json(const nlohmann::json&, Evaluation&);  // throws nlohmann::json::exception

Evaluation rejection(Stage, std::string reason, std::string diagnostics);

}  // namespace cultivar
