// The time below which a run cannot be honest: the device's own ceilings, as measured on this machine.
#pragma once

#include <optional>
#include <string>

#include "evaluators/targets/target.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

struct Roofline {
  double flops_seconds = 0.0, bytes_seconds = 0.0;
  double floor_seconds() const { return flops_seconds > bytes_seconds ? flops_seconds : bytes_seconds; }
};

// A ceiling is what the device was seen to do, not what it can do: a run may beat the floor by this factor.
inline constexpr double kRooflineMargin = 1.25;

// Data that fits the last cache is taken to be read from there.
Roofline roofline(const Task&, const Workload&, const Ceilings&, const Facts&);
bool impossibly_fast(const Roofline&, double seconds);
// The same of a device; when it looks impossible, its ceilings are measured once more before that is said.
// Not empty: why it cannot be, in words.
std::optional<std::string> impossibly_fast(const Task&, const Workload&, Device&, double seconds);
// "412 GFLOP/s over 1.07e9 flop; this device was seen to do 190 GFLOP/s at the most"
std::string describe_impossible(const Task&, const Workload&, const Roofline&, double seconds);

}  // namespace cultivar
