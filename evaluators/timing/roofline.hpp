// SPDX-License-Identifier: Apache-2.0
// The shortest time of a run that does all the work, from the peak rates measured on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluators/devices/device.hpp"
#include "evaluators/target/traits.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

struct Roofline {
  double flops_seconds = 0.0, bytes_seconds = 0.0;
  double floor_seconds() const { return flops_seconds > bytes_seconds ? flops_seconds : bytes_seconds; }
};

// A ceiling is the highest measured rate, not a hard limit: a run may be faster than the floor by this
// factor.
inline constexpr double kRooflineMargin = 1.25;

// Data that fits into the last-level cache is assumed to be read from there.
Roofline roofline(const Task&, const Workload&, const Ceilings&, const Facts&);
// The same for a timed run, which begins with cold caches: on a GPU inputs come from memory; on the host all
// data moves at the rate that was measured for its size, if any was. Shares of the peak follow from it; it
// must not decide what is impossible, because rates measured on a busy machine are too low.
Roofline timed_roofline(const Task&, const Workload&, const Ceilings&, const Facts&, Target);
// The shortest possible time of a timed run, with the launch of a GPU, in seconds; 0: unknown.
double least_run_seconds(const Task&, const Workload&, const Ceilings&, const Facts&, Target);
// "24 GB/s of 8 MiB, 23 of 32 MiB": what Ceilings::cold says; empty if nothing was measured.
std::string cold_rates_in_words(const std::vector<ColdRate>&);
// A time in which the memory could not have delivered the bytes of the workload, with the margin above. The
// kernel may be right: one that need not read all of some inputs is faster on these.
struct BeyondMemory {
  std::string workload;
  double bytes_per_second = 0.0, of_memory = 0.0;
  double times() const { return bytes_per_second / of_memory; }
  std::string words() const;  // with the likely reason
};
std::optional<BeyondMemory> beyond_memory(const Task&, const Workload&, const Ceilings&, const Facts&, Target,
                                          double seconds);
// Of those of an evaluation.
std::vector<BeyondMemory> beyond_memory(const Task&, const std::vector<Workload>&, const Evaluation&,
                                        const Ceilings&, const Facts&, Target);
// "75 %"; "over 100 %", because a peak is only the highest rate that was measured.
std::string share_in_words(double of_peak);
bool impossibly_fast(const Roofline&, double seconds);
// The same for a device. If a time looks impossible, the ceilings are measured again before it is reported.
// Returns why the time is impossible; nullopt if it is possible.
std::optional<std::string> impossibly_fast(const Task&, const Workload&, Device&, double seconds);
// "412 GFLOP/s over 1.07e9 flop; the highest rate measured on this device is 190 GFLOP/s"
std::string describe_impossible(const Task&, const Workload&, const Roofline&, double seconds);

// What a task reports of a time: operations per second, bytes per second or runs per second.
std::string unit_of(const Task&, Target);
double rate_of(const Task&, const Workload&, Target, double seconds);

}  // namespace cultivar
