// The manifest in a variant's leading comment: what it claims, its tunables, and its declarative launch plan.
// The same structure for every target; fields that a target does not use must be absent.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "evaluators/expression/expression.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/tunables.hpp"

namespace cultivar {

enum class TargetKind { cpu, cuda };
std::string_view name_of(TargetKind);

struct WorkspaceSpec {
  std::string name;
  Expression bytes;
  bool zero = false;  // zeroed before every run, inside the timed region
  friend bool operator==(const WorkspaceSpec&, const WorkspaceSpec&) = default;
};

struct TensorMapSpec {  // cuTensorMapEncodeTiled, rank 1-5
  std::string name, tensor;
  std::vector<Expression> sizes;            // elements, innermost first
  std::vector<Expression> strides;          // elements from dimension 1 on: rank - 1 of them
  std::vector<Expression> box;              // elements
  std::vector<Expression> element_strides;  // empty: all 1
  std::string swizzle = "none";             // none, 32B, 64B, 128B
  std::string interleave = "none";          // none, 16B, 32B
  std::string l2_promotion = "none";        // none, 64B, 128B, 256B
  std::string out_of_bounds = "zero";       // zero, nan
  friend bool operator==(const TensorMapSpec&, const TensorMapSpec&) = default;
};

struct ArgumentSpec {
  // A tensor, a workspace, a tensor map, `thread`, `threads` (cpu), or else an expression.
  std::string text;
  std::optional<Dtype> type;  // nullopt: pointer, or i32 for dimensions, or the parameter's own type
  friend bool operator==(const ArgumentSpec&, const ArgumentSpec&) = default;
};

struct KernelLaunch {
  std::string kernel;
  std::vector<ArgumentSpec> args;
  // cpu
  std::optional<Expression> threads;
  // cuda
  std::vector<Expression> grid, block, cluster;  // 3 each; cluster may be empty
  std::optional<Expression> shared;              // dynamic shared memory, bytes
  bool cooperative = false;
  bool programmatic_dependent = false;
  friend bool operator==(const KernelLaunch&, const KernelLaunch&) = default;
};

struct Manifest {
  std::string name, task, about;
  TargetKind target = TargetKind::cpu;
  std::optional<Expression> requires_;  // over dimensions, parameters and dtype: which workloads it claims
  std::vector<Tunable> tunables;
  std::vector<Expression> constraints;
  std::vector<std::string>
      specialize;  // dimensions, parameters, lets, dtype: macros, one compile for each assignment
  std::vector<std::pair<std::string, Expression>> let;
  std::vector<WorkspaceSpec> workspace;
  std::vector<TensorMapSpec> tensor_maps;
  std::vector<KernelLaunch> launch;
  std::vector<std::string> headers;  // files that follow the main one in the source: source_files.hpp
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// A diagnostic good enough to repair the source by: "line 7: tensor_maps.map_q names tensor 'qq' (did you
// mean q?)".
struct ManifestError {
  int line = 0;  // of the source file, 1-based; 0: of the file as a whole
  std::string message;

  std::string text() const { return line > 0 ? "line " + std::to_string(line) + ": " + message : message; }
};

// Reads the `/*--- cultivar ... ---*/` comment that a source begins with (or the bare text of to_yaml); a bad
// candidate is a value, so nothing is thrown. Sources are at most 1 MiB.
tl::expected<Manifest, ManifestError> parse_manifest(std::string_view source);
// Every name resolves against the task, every default is legal, every expression's names are known.
tl::expected<void, ManifestError> check_manifest(const Manifest&, const Task&, std::string_view source);
// Device facts that expressions may use on a target, and what each is; every device of that target supplies
// them.
const std::vector<std::pair<std::string, std::string>>& facts_of(TargetKind);
// Canonical YAML text; parse_manifest of it gives an equal manifest.
std::string to_yaml(const Manifest&);

}  // namespace cultivar
