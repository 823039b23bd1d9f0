// SPDX-License-Identifier: Apache-2.0
// The outcome of the staged evaluation of one variant: rejected at a stage with diagnostics, or measured.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evaluators/coverage/coverage.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/verdict/exactness.hpp"

namespace cultivar {

// Faults of the machine that say nothing about the variant whose evaluation met them: the evaluation is
// repeated, and decides nothing.
enum class HostFault {
  killed,            // a process was killed by a signal that no variant can send
  out_of_memory,     // the kernel killed a process at a memory limit
  memory_held,       // other programs hold the device's memory
  cache_lost,        // a compiled variant is no longer in the cache
  cache_unwritable,  // full disk, permissions
  busy,              // runs could not be told from the noise of the machine
  launcher_failed,   // the launcher started no worker
  worker_lost        // a worker ended in another way, or does not start
};

std::string_view name_of(HostFault);  // as in a record
std::optional<HostFault> host_fault_named(std::string_view);
std::string_view words_of(HostFault);  // "the worker was lost"

// True if a variant could cause it, too, for example by the memory that it needs: then a kernel that is known
// to work, evaluated in between, tells which of the two it is.
bool may_be_the_variants(HostFault);

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
void to_json(nlohmann::json&, const Stage&);
void from_json(const nlohmann::json&, Stage&);  // throws nlohmann::json::exception
std::span<const Stage> all_stages();            // in their order

// What the compiler reported about one binary.
struct Resources {
  std::map<std::string, double>
      values;  // cpu: text_bytes, stack_bytes; cuda: registers, spill_bytes, shared_bytes, ...
  // Of the instructions by kind, in percent; empty if not known (cpu, older records).
  std::map<std::string, double> shares = {};
};

struct Sample {
  double seconds = 0.0;    // handshake already subtracted
  double clock_mhz = 0.0;  // 0 if unknown
  double temperature_c = 0.0, power_w = 0.0;
  std::uint64_t throttle = 0;    // reasons, NVML bits
  std::string disturbance = {};  // not empty: why the sample does not count; such samples are not kept
  // The cause of a disturbance: possibly the kernel; a device that must cool down; or a busy host.
  enum class Disturber { kernel, device, host } disturber = Disturber::kernel;
};

struct WorkloadResult {
  std::string workload;
  std::vector<Sample> samples;  // all checked
  double median_us = 0.0, q1_us = 0.0, q3_us = 0.0;
  double value = 0.0;  // GFLOPS (cpu), TFLOPS (cuda) or GB/s, from the median
  std::string unit;
  std::map<std::string, double> ratios;  // contender -> its median time / the variant's, interleaved
  std::int64_t discarded = 0;            // samples that did not count because of a disturbance
  std::map<std::string, Interval> ratio_intervals = {};  // 95 %, by bootstrap; absent in older records
  double incumbent_us = 0.0;  // median of the search's best kernel between these samples; 0: was not timed
};

// Why a contender has no figure beside a variant, on one workload or on all. Not the variant's fault.
struct ContenderTrouble {
  enum class Kind {
    failed,    // on a workload: not supported, or the result is wrong
    unusable,  // its library does not load
    left_out   // the worker was lost because of it; skipped afterwards
  };
  std::string contender;
  Kind kind = Kind::failed;
  std::string reason;        // one line
  std::string details;       // may be empty
  std::string line() const;  // for a log
};

// On what a variant was right: the compared runs on check shapes, drawn shapes and holdout workloads. Those
// on the timed workloads are not counted.
struct Checked {
  std::int64_t runs = 0, shapes = 0;
  std::int64_t specialisations = 0;  // macro assignments
  // Claimed check shapes whose specialisation was not compiled: a search checks them when it confirms.
  std::int64_t left_out = 0;
  // The least and the greatest value of each dimension and parameter.
  std::map<std::string, std::pair<double, double>> ranges = {};

  friend bool operator==(const Checked&, const Checked&) = default;
};

struct Evaluation {
  enum class Verdict { measured, rejected } verdict = Verdict::rejected;
  Stage stage = Stage::lint;  // the last stage reached: where it was rejected, or the last stage requested
  std::string reason;         // one line; empty if measured
  std::string diagnostics;    // everything that a person or a model needs to repair the variant
  std::string machine_code;   // hash of the binaries, to detect duplicates; empty before compile
  Resources resources;
  double fitness = 0.0;  // geometric mean of the workloads' values; 0 if rejected
  std::string unit;
  std::vector<WorkloadResult> workloads;
  std::uint64_t input_seed = 0;  // seed of the secret inputs, so that a failure can be reproduced
  double compile_seconds = 0.0, check_seconds = 0.0, measure_seconds = 0.0;
  bool worker_lost = false;  // the worker had to be replaced (crash, hang)
  bool late = false;         // rejected because of a timeout, caused by the variant or by a busy machine
  // The rejection is due to the machine and not, or not surely, to the variant: a search repeats the
  // evaluation.
  std::optional<HostFault> host_fault = {};
  // Also in `diagnostics` as text; older records have only the text.
  std::vector<ContenderTrouble> contender_troubles = {};
  std::vector<Exactness> exactness = {};  // if requested; absent in older records
  std::optional<Checked> checked = {};    // absent if nothing ran, and in older records
  // Of the largest tensor on which the kernel was found right; 0: not known, as in older records.
  std::int64_t largest_elements = 0;
  std::optional<Coverage> coverage = {};  // of confirmations; absent in older records

  bool measured() const { return verdict == Verdict::measured; }
  void add(ContenderTrouble);  // to the troubles and to the diagnostics
};

void to_json(nlohmann::json&, const ContenderTrouble&);
void from_json(const nlohmann::json&, ContenderTrouble&);  // throws nlohmann::json::exception

void to_json(nlohmann::json&, const Checked&);
void from_json(const nlohmann::json&, Checked&);  // throws nlohmann::json::exception

void to_json(nlohmann::json&, const Evaluation&);    // includes raw samples
void from_json(const nlohmann::json&, Evaluation&);  // throws nlohmann::json::exception

Evaluation rejection(Stage, std::string reason, std::string diagnostics);
Evaluation host_rejection(Stage, HostFault,
                          const std::string& diagnostics);  // the fault's words as the reason

}  // namespace cultivar
