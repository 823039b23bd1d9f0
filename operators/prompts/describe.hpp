// What a model is told, as text: the task, the device, a variant with its measurements. Pure functions; what
// is not known is left out, never guessed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluators/evaluation.hpp"
#include "evaluators/targets/target.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Tensors with types and shapes, parameters, what the cost model counts, how outputs are compared, the
// oracle's source unless it is not wanted, the workloads that are timed, and names of shapes that are
// checked.
std::string describe_task(const Task&, const std::vector<Workload>&, TargetKind, bool with_oracle = true);
std::string describe_oracle(const Task&);  // up to and with reference_row
// The same without workloads, cost and oracle, for when there is room for no more: summary, tensors, and what
// each dimension and parameter means. A task says in those words all that decides right from wrong.
std::string describe_task_briefly(const Task&);
// On one line.
std::string describe_device_briefly(const std::string& description, const Facts&);
// Facts by name, as expressions of a manifest see them, after `description` (the device in words), and the
// most that it was seen to do.
std::string describe_device(const std::string& description, const Facts&, const Ceilings& = {});

struct Reference {
  std::string name;            // of what others are compared with: "incumbent #31", "cudnn"
  std::vector<double> values;  // by workload, in the search's order; 0: not known
  // Of the ratios to it, where they were timed in turn, likewise by workload.
  std::vector<std::optional<Interval>> bounds = {};
};
// One row for each workload: median, quartiles, value, share of the roofline, and the ratio to each
// reference. `floors_us` (in the order of `workloads`) may be empty.
std::string describe_measurements(const Evaluation&, const std::vector<Workload>&,
                                  const std::vector<double>& floors_us, const std::vector<Reference>&);
// Where and why it was refused, with the diagnostics, of which at most `most_bytes` (head and tail) are kept.
std::string describe_rejection(const Evaluation&, std::size_t most_bytes = 3000);
// "BLOCK_M=128 BLOCK_N=64"; "defaults" if there is nothing to say.
std::string describe_configuration(const Configuration&);

// A fenced block; its fence is longer than any in the text, so that the text cannot end it.
std::string fenced(const std::string& text, const std::string& language = "");

}  // namespace cultivar
