// What must be computed: tensors, dimensions, oracle, tolerances, check stages, workload sets. A task is a
// folder: task.yaml, reference.cpp, seeds/, and contenders/ (variant sources that are timed beside, never
// evolved).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/expression/expression.hpp"
#include "evaluators/task/fill.hpp"
#include "evaluators/task/workload.hpp"

namespace cultivar {

enum class Role { input, output };

struct TensorSpec {
  std::string name;
  Role role = Role::input;
  std::optional<Dtype> dtype;      // nullopt: the workload's dtype
  std::vector<std::string> shape;  // names of dimensions, outermost first; contiguous
  Fill fill;                       // inputs only
};

struct Dimension {
  std::string name, about;
  std::optional<Expression> fallback;  // its value when a workload does not give it
};

struct Parameter {
  std::string name, about;
  Dtype type = Dtype::f32;  // what a kernel argument of this name gets; a flag is i32, 0 or 1
  bool flag = false;
  std::optional<Expression> fallback;
};

// E <= factor * R + floor, for the maximum and the RMS error, over the whole tensor and over each block of
// rows.
struct Tolerance {
  double factor = 2.0;
  // floor = floor_eps * accumulation_epsilon(output dtype) * RMS of the oracle over what is compared: the
  // order in which a kernel sums is its own affair. Far below what a lower precision costs.
  double floor_eps = 64.0;
  std::int64_t block_rows = 64;
};

// What compiled code of a variant may cost before it is refused unseen.
struct CodeLimits {
  std::uint32_t spill_bytes = 512;  // cuda: stores and loads of spilled registers in the code of one kernel
};

// A stress case: fills that replace the plain ones.
struct StressCase {
  std::string name, about;
  std::map<std::string, Fill> fills;  // by tensor
};

// A wrong kernel that the checks must refuse: `control_<name>` in reference.cpp makes its rows. The built-in
// ones (zeros, mean, identity, previous output, fp8) need no entry.
struct Control {
  std::string name, about;
  std::optional<Expression> when;  // workloads where it really is wrong: "causal"
};

struct Cost {
  Expression flops, bytes;
  bool by_bytes = false;  // report GB/s and not FLOPS
};

struct Task {
  std::string name, summary;
  std::filesystem::path folder;
  std::vector<Dimension> dimensions;
  std::vector<Parameter> parameters;
  std::vector<Dtype> dtypes;
  std::vector<TensorSpec> tensors;
  std::vector<std::string> rows;  // the dimensions that one row index walks, outermost first
  std::vector<std::pair<std::string, Expression>> let;
  std::vector<Expression> where;  // relations every workload must satisfy: "H % H_kv == 0"
  Tolerance tolerance;
  CodeLimits limits;
  Cost cost;
  // Check shapes; their dtype is a placeholder: each dtype that a variant claims is tried.
  std::vector<Workload> smoke, sweep, stress_shapes, edge;
  std::vector<StressCase> stress;
  std::vector<Control> controls;
  std::vector<WorkloadSet> workload_sets;

  const WorkloadSet* workloads(std::string_view set) const;  // nullptr: no such set
  const TensorSpec* tensor(std::string_view tensor_name) const;

  // Dimensions, parameters, `let` names and dtype of one workload, for expressions.
  Bindings bindings(const Workload&) const;
  std::vector<std::int64_t> shape(const TensorSpec&, const Workload&) const;
  Dtype dtype(const TensorSpec& t, const Workload& w) const { return t.dtype.value_or(w.dtype); }
  std::size_t bytes_of(const TensorSpec&, const Workload&) const;
  std::int64_t row_count(const Workload&) const;
  double flops(const Workload&) const;
  double bytes(const Workload&) const;
};

// Reads folder/task.yaml. Throws InputError with file, line, nearest known name and remedy.
Task load_task(const std::filesystem::path& folder);

}  // namespace cultivar
