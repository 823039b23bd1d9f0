// SPDX-License-Identifier: Apache-2.0
// Descriptions for a model: the task, the device, a variant with its measurements. Pure functions; unknown
// facts are omitted, never guessed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluators/devices/ceilings.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/variant.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

// Tensors with types and shapes, parameters, the cost model, how outputs are compared, optionally the
// oracle's source, the timed workloads, and names of checked shapes.
std::string describe_task(const Task&, const std::vector<Workload>&, Target, bool with_oracle = true);
std::string describe_oracle(const Task&);  // up to and including reference_row
// The short form without cost and oracle, for when space is short: summary, tensors, and the meaning of each
// dimension and of each parameter that is not left at its default in all of these workloads. These texts of a
// task must state every rule that decides correctness.
std::string describe_task_briefly(const Task&, const std::vector<Workload>&);
// In one line.
std::string describe_device_briefly(const std::string& description, const Facts&);
// `description` (the device as text), its facts by the names that expressions in a manifest use, and its
// measured peaks.
std::string describe_device(const std::string& description, const Facts&, const Ceilings& = {});

struct Reference {
  std::string name;            // name of the kernel to compare with: "incumbent #31", "cudnn"
  std::vector<double> values;  // by workload, in the search's order; 0: unknown
  // Bounds of the ratios to it, if they were timed interleaved, also by workload.
  std::vector<std::optional<Interval>> bounds = {};
  std::string basis = "95 % interval";  // what the bounds are, or where ratios without bounds come from
};
// One row for each workload: median, quartiles, value, share of the roofline, and the ratio to each
// reference. `floors_us` (in the order of `workloads`) may be empty. A fitness of 0 is not shown.
std::string describe_measurements(const Evaluation&, const std::vector<Workload>&,
                                  const std::vector<double>& floors_us, const std::vector<Reference>&);
// The stage and reason of a rejection, with at most `most_bytes` of the diagnostics (head and tail).
std::string describe_rejection(const Evaluation&, std::size_t most_bytes = 3000);
// The lines that no check of a confirmation ran, which both of the above end with; empty if there are none.
std::string describe_unchecked_lines(const Evaluation&);
// "BLOCK_M=128 BLOCK_N=64"; "defaults" if it is empty.
std::string describe_configuration(const Configuration&);

// A fenced block; its fence is longer than any fence in the text, so that the text cannot close it.
std::string fenced(const std::string& text, const std::string& language = "");

}  // namespace cultivar
