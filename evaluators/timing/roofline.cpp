// SPDX-License-Identifier: Apache-2.0
#include "evaluators/timing/roofline.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cultivar {

namespace {

double last_cache(const Facts& facts) {
  double bytes = 0.0;
  for (const char* name : {"l2_bytes", "l3_bytes"})
    if (const auto fact = facts.find(name); fact != facts.end()) bytes = std::max(bytes, fact->second);
  return bytes;
}

// Of the greatest measured size that is not greater; of the smallest for what is smaller, which comes from
// memory, too. 0: not measured.
double cold_rate(const Ceilings& ceilings, double bytes) {
  double rate = ceilings.cold.empty() ? 0.0 : ceilings.cold.front().bytes_per_second;
  for (const ColdRate& each : ceilings.cold)
    if (each.bytes <= bytes) rate = each.bytes_per_second;
  return rate;
}

}  // namespace

Roofline roofline(const Task& task, const Workload& workload, const Ceilings& ceilings, const Facts& facts) {
  Roofline floor;
  const double bytes = task.bytes(workload);
  const double cached = ceilings.cached_bytes_per_second;
  const double bandwidth = bytes <= last_cache(facts) && cached > 0.0 ? cached : ceilings.bytes_per_second;
  if (ceilings.flops > 0.0 && task.cost.flops) floor.flops_seconds = task.flops(workload) / ceilings.flops;
  if (bandwidth > 0.0) floor.bytes_seconds = bytes / bandwidth;
  return floor;
}

Roofline timed_roofline(const Task& task, const Workload& workload, const Ceilings& ceilings,
                        const Facts& facts, Target target) {
  Roofline floor = roofline(task, workload, ceilings, facts);
  if (target->on_host) {
    const double bytes = task.bytes(workload), rate = cold_rate(ceilings, bytes);
    if (rate > 0.0) floor.bytes_seconds = std::max(floor.bytes_seconds, bytes / rate);
    return floor;
  }
  if (!(ceilings.bytes_per_second > 0.0)) return floor;
  double read = 0.0;
  for (const TensorSpec& t : task.tensors)
    if (t.role == Role::input) read += static_cast<double>(task.bytes_of(t, workload));
  read = std::min(read, task.bytes(workload));
  floor.bytes_seconds = std::max(floor.bytes_seconds, read / ceilings.bytes_per_second);
  return floor;
}

double least_run_seconds(const Task& task, const Workload& workload, const Ceilings& ceilings,
                         const Facts& facts, Target target) {
  const double work = timed_roofline(task, workload, ceilings, facts, target).floor_seconds();
  return target->on_host || !(work > 0.0) ? work : work + ceilings.handshake_s;
}

std::string BeyondMemory::words() const {
  return fmt::format(
      "{}: {:.4g} GB/s is {:.2g} times what this device's memory delivers ({:.3g} GB/s): the kernel probably "
      "does not read all of its input, and is slower on inputs of which it must read more; or cost.bytes of "
      "the task is too high",
      workload, bytes_per_second * 1e-9, times(), of_memory * 1e-9);
}

std::optional<BeyondMemory> beyond_memory(const Task& task, const Workload& workload,
                                          const Ceilings& ceilings, const Facts& facts, Target target,
                                          double seconds) {
  // On a GPU outputs, and inputs that fit, may stay in the cache; on the host each run begins with cold ones.
  const double bytes = task.bytes(workload);
  const double floor = target->on_host
                           ? bytes / std::max(cold_rate(ceilings, bytes), ceilings.bytes_per_second)
                           : timed_roofline(task, workload, ceilings, facts, target).bytes_seconds;
  if (!(ceilings.bytes_per_second > 0.0) || !(seconds > 0.0) || seconds * kRooflineMargin >= floor)
    return std::nullopt;
  return BeyondMemory{workload.name, bytes / seconds, bytes / floor};
}

std::vector<BeyondMemory> beyond_memory(const Task& task, const std::vector<Workload>& workloads,
                                        const Evaluation& evaluation, const Ceilings& ceilings,
                                        const Facts& facts, Target target) {
  std::vector<BeyondMemory> found;
  for (const WorkloadResult& result : evaluation.workloads)
    for (const Workload& workload : workloads)
      if (workload.name == result.workload)
        if (auto one = beyond_memory(task, workload, ceilings, facts, target, result.median_us * 1e-6))
          found.push_back(std::move(*one));
  return found;
}

std::string share_in_words(double of_peak) {
  return of_peak > 1.0 ? "over 100 %" : fmt::format("{:.0f} %", 100.0 * of_peak);
}

std::string cold_rates_in_words(const std::vector<ColdRate>& cold) {
  std::string words;
  for (const ColdRate& rate : cold)
    words += fmt::format("{}{:.3g} {}{:.3g} MiB", words.empty() ? "" : ", ", rate.bytes_per_second * 1e-9,
                         words.empty() ? "GB/s of " : "of ", rate.bytes / (1 << 20));
  return words;
}

bool impossibly_fast(const Roofline& floor, double seconds) {
  return seconds * kRooflineMargin < floor.floor_seconds();
}

std::optional<std::string> impossibly_fast(const Task& task, const Workload& workload, Device& device,
                                           double seconds) {
  constexpr int kMeasuredAgain = 4;  // beside other work a rate may be measured too low more than once
  Roofline floor = roofline(task, workload, device.ceilings(), device.facts());
  for (int i = 0; i < kMeasuredAgain && impossibly_fast(floor, seconds); ++i)
    floor = roofline(task, workload, device.raise_ceilings(), device.facts());
  if (!impossibly_fast(floor, seconds)) return std::nullopt;
  return describe_impossible(task, workload, floor, seconds);
}

std::string describe_impossible(const Task& task, const Workload& workload, const Roofline& floor,
                                double seconds) {
  const bool by_flops = floor.flops_seconds >= floor.bytes_seconds;
  const double work = by_flops ? task.flops(workload) : task.bytes(workload);
  const char* unit = by_flops ? "GFLOP/s" : "GB/s";
  return fmt::format(
      "{}: {:.4g} us for {:.4g} {} is {:.4g} {}; the highest rate measured on this device is {:.4g} {}. "
      "Either the kernel skips work, or it reuses results of an earlier run, or the task's cost is too "
      "high.\n",
      workload.name, seconds * 1e6, work, by_flops ? "flop" : "bytes", work / seconds / 1e9, unit,
      work / floor.floor_seconds() / 1e9, unit);
}

std::string unit_of(const Task& task, Target target) {
  switch (task.cost.report) {
    case Cost::Report::bytes:
      return "GB/s";
    case Cost::Report::time:
      return "runs/s";
    case Cost::Report::flops:
      break;
  }
  return target->unit;
}

double rate_of(const Task& task, const Workload& workload, Target target, double seconds) {
  switch (task.cost.report) {
    case Cost::Report::bytes:
      return task.bytes(workload) / seconds / 1e9;
    case Cost::Report::time:
      return 1.0 / seconds;
    case Cost::Report::flops:
      break;
  }
  return task.flops(workload) / seconds / target->unit_scale;
}

}  // namespace cultivar
