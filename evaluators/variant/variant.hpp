// SPDX-License-Identifier: Apache-2.0
// One candidate: kernel source, manifest and one value for each tunable; and its plan on one workload.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/variant/manifest.hpp"

namespace cultivar {

struct Variant {
  std::string source;  // the whole text: manifest, main file, headers (source_files.hpp)
  Manifest manifest;
  Configuration configuration;
  std::string id;  // SHA-256 (hex) of normalized source, manifest and tunable values
  std::string
      source_id;  // SHA-256 (hex) of normalized source and manifest; the tuner groups observations by it
};

// Parsed once and shared from then on.
using VariantPtr = std::shared_ptr<const Variant>;

// Removes what does not count: trailing blanks, the kind of line ends, and blank lines at the end of a file.
std::string normalised(std::string_view source);

// Lint (stage 0): parses, checks against the task, and checks the configuration. Missing tunables get their
// defaults.
tl::expected<Variant, ManifestError> make_variant(std::string source, const Task&, Configuration = {});
// The same for a source whose manifest is already parsed.
tl::expected<Variant, ManifestError> make_variant(std::string source, Manifest, const Task&, Configuration);
// The same source with other values of its tunables; parses nothing.
tl::expected<Variant, ManifestError> with_configuration(const Variant&, Configuration);
// The source of a variant with its configuration as the defaults of its tunables and nothing else changed, so
// that whoever takes only the file has the same kernel; unchanged if the manifest spells them in an unusual
// way.
std::string with_own_defaults(const Variant&);
// The same source with its header sections in the order of the manifest's `headers`, if they are these;
// otherwise unchanged.
std::string with_listed_order(std::string_view source);
// A variant for one target is an error on another, even if its source would compile.
tl::expected<void, ManifestError> check_target(const Variant&, Target where);
// The text of a variant's file, followed by the headers that its manifest lists. They lie beside it; for a
// file below a folder with a task.yaml, in `headers` beside that folder; or in `seeds` of the given task, or
// in `headers` beside it. An InputError names the file and line that cannot be read or is not a header. A bad
// manifest is not an error here.
std::string read_source(const std::filesystem::path&, const std::filesystem::path& task_folder = {});
// The name of the task in the manifest of such a file. A bad manifest is an InputError ("file:line: ...").
std::string task_name_in(const std::filesystem::path&);
// make_variant from a file. An unreadable file is an InputError, and so is a bad manifest ("file:line: ...").
Variant load_variant(const std::filesystem::path&, const Task&, Configuration = {});
// Also requires that the variant is for this target.
Variant load_variant(const std::filesystem::path&, const Task&, Target);

// --- One workload's plan, every expression evaluated. ---

struct PlannedBuffer {
  std::string name;
  std::size_t bytes = 0;
  enum class Use { input, output, workspace } use = Use::input;
  bool zero = false;
  std::size_t element_bytes = 1;  // element size of a tensor
  int starts_as = -1;             // an output that holds this input before a run, instead of a random pattern
};

struct PlannedArgument {
  enum class Kind { buffer, tensor_map, scalar, thread, threads } kind = Kind::scalar;
  int index = 0;  // index into buffers or tensor_maps
  Dtype type = Dtype::i32;
  double value = 0.0;  // value of a scalar
};

struct PlannedTensorMap {
  std::string name;
  int buffer = 0;
  Dtype dtype = Dtype::bf16;
  std::vector<std::uint64_t> sizes, stride_bytes;
  std::vector<std::uint32_t> box, element_strides;
  std::string swizzle, interleave, l2_promotion, out_of_bounds;
};

struct PlannedKernel {
  std::string kernel;
  std::vector<PlannedArgument> args;
  LaunchNumbers launch;  // by the target's launch keys
};

struct Plan {
  std::vector<PlannedBuffer> buffers;  // the task's tensors in order, then the workspaces
  std::vector<PlannedTensorMap> tensor_maps;
  std::vector<PlannedKernel> kernels;
};

bool claims(const Variant&, const Task&, const Workload&);
// Why the constraints of a variant do not hold; the message names the constraint and the numbers in it.
struct Unmet {
  std::string message;
  bool has_value = true;  // no: a constraint or a let has none, for example 1 / 0
};
tl::expected<void, Unmet> check_constraints(const Variant&, const Task&, const Workload&, const Facts&);
Expected<Plan> make_plan(const Variant&, const Task&, const Workload&, const Facts&);
// The same with every output that may have an input's memory (TensorSpec::in_place) in that memory: the
// kernels get one place for both.
Plan in_place(const Task&, Plan);
// The first of these workloads on which a constraint or the plan fails: why, and the line of the manifest.
std::optional<ManifestError> illegal_on(const std::vector<Workload>&, const Variant&, const Task&,
                                        const Facts&);
// The numbers that do not depend on a device: the task's names, tunables, and the manifest's lets over those
// only.
Bindings device_free_numbers(const Variant&, const Task&, const Workload&);
// The macros of one compile: "D=128", "BLOCK_M=64", ..., sorted. Workloads with equal macros share a binary.
std::vector<std::string> macros(const Variant&, const Task&, const Workload&);

}  // namespace cultivar
