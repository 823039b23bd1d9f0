// SPDX-License-Identifier: Apache-2.0
// The manifest in a variant's leading comment: the workloads it claims, its tunables, and its declarative
// launch plan. The same structure for every target; fields that a target does not use must be absent.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "evaluators/expression/expression.hpp"
#include "evaluators/target/language.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/tunables.hpp"

namespace cultivar {

struct WorkspaceSpec {
  std::string name;
  Expression bytes;
  bool zero = false;  // zeroed before every run, inside the timed region
  friend bool operator==(const WorkspaceSpec&, const WorkspaceSpec&) = default;
};

struct TensorMapSpec {  // cuTensorMapEncodeTiled, rank 1-5
  std::string name, tensor;
  std::optional<Dtype> dtype;               // of the elements of a workspace; a tensor has its own
  std::vector<Expression> sizes;            // elements, innermost first
  std::vector<Expression> strides;          // in elements, from dimension 1 on: rank - 1 entries
  std::vector<Expression> box;              // elements
  std::vector<Expression> element_strides;  // empty: all 1
  std::string swizzle = "none";             // none, 32B, 64B, 128B
  std::string interleave = "none";          // none, 16B, 32B
  std::string l2_promotion = "none";        // none, 64B, 128B, 256B
  std::string out_of_bounds = "zero";       // zero, nan
  friend bool operator==(const TensorMapSpec&, const TensorMapSpec&) = default;
};

struct ArgumentSpec {
  // A tensor, a workspace, a tensor map, `thread`, `threads` (where the target has them), or else an
  // expression.
  std::string text;
  std::optional<Dtype> type;  // nullopt: a pointer, i32 for dimensions, or the parameter's own type
  friend bool operator==(const ArgumentSpec&, const ArgumentSpec&) = default;
};

struct KernelLaunch {
  std::string kernel;
  std::vector<ArgumentSpec> args;
  LaunchExpressions keys = {};            // of the target and of the language
  std::optional<Expression> when = {};    // the kernel is left out where this is 0
  std::optional<Expression> repeat = {};  // how many times it runs; expressions may use `step`, from 0

  const std::vector<Expression>& values(std::string_view key) const;  // empty: absent
  bool flag(std::string_view key) const { return keys.contains(key); }
  friend bool operator==(const KernelLaunch&, const KernelLaunch&) = default;
};

struct Manifest {
  std::string name, task, about;
  std::string license;  // an SPDX expression; empty: not stated
  Target target = usual_target();
  Language language = usual_language(usual_target());
  std::optional<Expression> requires_;  // the workloads it claims, over dimensions, parameters and dtype
  std::vector<Tunable> tunables;
  std::vector<Expression> constraints;
  std::vector<std::string>
      specialize;  // dimensions, parameters, lets, dtype that become macros; one compile per assignment
  std::vector<std::pair<std::string, Expression>> let;
  std::vector<WorkspaceSpec> workspace;
  std::vector<TensorMapSpec> tensor_maps;
  std::vector<KernelLaunch> launch;
  std::vector<std::string> headers;  // files that follow the main file in the source; see source_files.hpp
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// A diagnostic with enough detail to repair the source: "line 7: tensor_maps.map_q names tensor 'qq' (did you
// mean q?)".
struct ManifestError {
  int line = 0;  // line of the source file, 1-based; 0: the whole file
  std::string message;

  std::string text() const { return line > 0 ? "line " + std::to_string(line) + ": " + message : message; }
};

// Reads the `/*--- cultivar ... ---*/` comment at the start of a source, in the comment syntax of its
// language. Returns errors as values, because a bad candidate is not an exception. Sources are at most 1 MiB.
tl::expected<Manifest, ManifestError> parse_manifest(std::string_view source);
// The language of a source; `otherwise`: where its manifest cannot be read.
Language language_of(std::string_view source, Language otherwise = languages().front());
// Checks that every name resolves against the task, every default is legal, and every name in an expression
// is known.
tl::expected<void, ManifestError> check_manifest(const Manifest&, const Task&, std::string_view source);

}  // namespace cultivar
