// SPDX-License-Identifier: Apache-2.0
// What must be computed: tensors, dimensions, oracle, tolerances, check stages, workload sets. A task is a
// folder with task.yaml, its reference, seeds/, and contenders/ (variant sources that are timed for
// comparison and never evolved).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/dtype/dtype.hpp"
#include "evaluators/expression/expression.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/task/fill.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

// One assignment of a task's dimensions, parameters and dtype.
struct Workload {
  std::string name;  // unique within its set: "B8_H16_S4096_D128_causal_bf16"
  Dtype dtype = Dtype::f32;
  Bindings values;  // every dimension and every parameter of the task, defaults filled in
};

struct WorkloadSet {
  std::string name;
  std::string about;
  std::vector<Workload> workloads;
};

enum class Role { input, output };

// Whether an entry of a shape is a constant and not the name of a dimension.
inline bool is_constant(const std::string& extent) {
  return !extent.empty() && extent[0] >= '0' && extent[0] <= '9';
}

struct TensorSpec {
  std::string name;
  Role role = Role::input;
  std::optional<Dtype> dtype;  // nullopt: the workload's dtype
  // Names of dimensions, and constants such as "3", outermost first; contiguous.
  std::vector<std::string> shape;
  Fill fill;  // inputs only; Task::fill gives its numbers for a workload
  // Outputs only. Their own row dimensions, if not those of the task; none: the whole tensor is one row.
  std::optional<std::vector<std::string>> rows;
  // Outputs only. By how much two runs on the same inputs may differ, as a share of the permitted error; 0:
  // the bits must be equal.
  double run_to_run = 0.0;
  // Outputs only. The input whose memory a caller may pass for it as well, because the operation changes that
  // input; empty: none. A kernel must be right either way.
  std::string in_place;
};

struct Dimension {
  std::string name, about;
  std::optional<Expression> fallback;  // the value if a workload does not give one
};

struct Parameter {
  std::string name, about;
  Dtype type = Dtype::f32;  // type of a kernel argument of this name; a flag is i32, 0 or 1
  bool flag = false;
  std::optional<Expression> fallback;
  bool optional = false;  // a variant whose manifest does not name it claims only its default
  // A number only: the values that users give it, and that checks draw.
  std::optional<std::pair<double, double>> range = {};
};

// E <= factor * R + floor, for the maximum and the RMS error, over the whole tensor and over each block of
// rows. (E: the kernel's error, R: the error of the permitted roundings.)
struct Tolerance {
  double factor = 2.0;
  // floor = floor_eps * accumulation_epsilon(output dtype) * RMS of the oracle over what is compared. It
  // leaves a kernel free to sum in any order, and is far below the error of a lower precision.
  double floor_eps = 64.0;
  std::int64_t block_rows = 64;
};

// Limits on the compiled code of a variant; beyond them it is rejected before it runs.
struct CodeLimits {
  std::uint32_t spill_bytes = 512;  // cuda: bytes of spill stores and loads in one kernel
};

// Inputs that are not filled but computed from others, by the reference: what an earlier
// computation left, such as the results of a forward pass.
struct Derived {
  std::vector<std::string> inputs, from;
  std::vector<std::string> rows;  // the dimensions that a row of them enumerates, outermost first
};

// A stress case: fills that replace the plain ones.
struct StressCase {
  std::string name, about;
  std::map<std::string, Fill> fills;  // tensor -> fill
};

// A wrong kernel that the checks must reject: `control_<name>` of the reference computes its rows. The
// built-in controls (zeros, mean, identity, previous output, fp8) need no entry.
struct Control {
  std::string name, about;
  std::optional<Expression> when;  // workloads on which it is wrong, such as "causal"
  std::string place;               // "FOLDER/task.yaml:LINE"
};

struct Cost {
  enum class Report { flops, bytes, time };  // FLOPS, GB/s, runs per second
  std::optional<Expression> flops, bytes;    // nullopt: not known, with Report::time only
  Report report = Report::flops;
};

struct Task {
  std::string name, summary;
  std::filesystem::path folder;
  std::filesystem::path reference;  // the file that defines the correct result (references/)
  std::vector<Dimension> dimensions;
  std::vector<Parameter> parameters;
  std::vector<Dtype> dtypes;
  std::vector<TensorSpec> tensors;
  std::vector<std::string> rows;  // the dimensions that a row index enumerates, outermost first
  std::optional<Derived> derived;
  std::vector<std::pair<std::string, Expression>> let;
  std::vector<Expression> where;  // relations that every workload must satisfy: "H % H_kv == 0"
  Tolerance tolerance;
  CodeLimits limits;
  Cost cost;
  // Shapes of the check stages. Their dtype is a placeholder: each dtype that a variant claims is tried.
  std::vector<Workload> smoke, sweep, stress_shapes, edge;
  std::vector<StressCase> stress;
  std::vector<Control> controls;
  std::vector<WorkloadSet> workload_sets;

  const WorkloadSet* workloads(std::string_view set) const;  // nullptr if there is no such set
  const TensorSpec* tensor(std::string_view tensor_name) const;
  bool is_derived(std::string_view input) const;

  // Dimensions, parameters, `let` names and dtype of one workload, for expressions.
  Bindings bindings(const Workload&) const;
  std::vector<std::int64_t> shape(const TensorSpec&, const Workload&) const;
  Dtype dtype(const TensorSpec& t, const Workload& w) const { return t.dtype.value_or(w.dtype); }
  std::size_t bytes_of(const TensorSpec&, const Workload&) const;
  std::int64_t row_count(const Workload&) const;  // of the task's `rows`
  // The tensor's fill with the numbers of a workload.
  Fill fill(const Fill&, const Workload&) const;
  double flops(const Workload&) const;  // if not known: one for each element of each tensor
  double bytes(const Workload&) const;  // if not known: those of the outputs, which every kernel writes
  // That with most arithmetic; of equals, that with most bytes. `of` must not be empty.
  const Workload& most_expensive(const std::vector<Workload>& of) const;
};

// Reads folder/task.yaml. Throws InputError with file, line, nearest known name and remedy.
Task load_task(const std::filesystem::path& folder);

// A workload from the values that are given. What `given` omits gets its default. Checks each value, `where`
// and the cost; the error says what is wrong, for the file that gave it. `task` must have its dimensions,
// parameters, tensors, let, where and cost.
Expected<Workload> make_workload(const Task& task, Bindings given, Dtype dtype, bool dtype_in_name);

// The values of a workload that are not defaults: make_workload makes it of them again.
Bindings given_values(const Task& task, const Workload& workload);

// Each item of the list gives dimensions and parameters; the others get their defaults. Checks `where` and
// the cost. `task` must already have its dimensions, parameters, tensors, let, where and cost.
std::vector<Workload> read_workloads(const Task& task, const YamlNode& list, Dtype dtype, bool dtype_in_name);

}  // namespace cultivar
