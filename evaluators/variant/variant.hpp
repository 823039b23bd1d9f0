// One candidate: kernel source + manifest + one value for each tunable; and what it comes to on one workload.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "evaluators/variant/manifest.hpp"

namespace cultivar {

struct Variant {
  std::string source;  // the whole text: manifest, main file, headers (source_files.hpp)
  Manifest manifest;
  Configuration configuration;
  std::string id;  // SHA-256 (hex) of normalised source, manifest and tunable values
  std::string
      source_id;  // SHA-256 (hex) of normalised source and manifest: what the tuner's observations share
};

// Trailing blanks, line ends and blank lines at the end of a file do not change what a source is.
std::string normalised(std::string_view source);
std::string sha256_hex(std::string_view bytes);

// Lint, stage 0: parse, check against the task, check the configuration (missing tunables get their
// defaults).
tl::expected<Variant, ManifestError> make_variant(std::string source, const Task&, Configuration = {});
// A variant for one target is nothing on another, even where its source would compile.
tl::expected<void, ManifestError> check_target(const Variant&, TargetKind where);
// The text of a variant's file, followed by the headers that its manifest lists, which lie beside it. An
// InputError names the file, and the line, that cannot be read or is no header; a bad manifest is none yet.
std::string read_source(const std::filesystem::path&);
// The same as make_variant from a file; an unreadable file is an InputError, a bad manifest is too
// ("file:line: ...").
Variant load_variant(const std::filesystem::path&, const Task&, Configuration = {});
// And it must be for this target.
Variant load_variant(const std::filesystem::path&, const Task&, TargetKind);

// Device facts for expressions: num_cores, l1_bytes, ... on cpu; num_sms, smem_max, l2_bytes, ... on cuda.
using Facts = Bindings;

// --- One workload's plan, every expression evaluated. ---

struct PlannedBuffer {
  std::string name;
  std::size_t bytes = 0;
  enum class Use { input, output, workspace } use = Use::input;
  bool zero = false;
  std::size_t element_bytes = 1;  // of a tensor
};

struct PlannedArgument {
  enum class Kind { buffer, tensor_map, scalar, thread, threads } kind = Kind::scalar;
  int index = 0;  // into buffers or tensor_maps
  Dtype type = Dtype::i32;
  double value = 0.0;  // scalar
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
  int threads = 1;
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  std::size_t shared_bytes = 0;
  bool cooperative = false, programmatic_dependent = false;
};

struct Plan {
  std::vector<PlannedBuffer> buffers;  // the task's tensors in order, then the workspaces
  std::vector<PlannedTensorMap> tensor_maps;
  std::vector<PlannedKernel> kernels;
};

bool claims(const Variant&, const Task&, const Workload&);
// Constraints hold? An Error names the constraint and the numbers in it.
Expected<void> check_constraints(const Variant&, const Task&, const Workload&, const Facts&);
Expected<Plan> make_plan(const Variant&, const Task&, const Workload&, const Facts&);
// The numbers that no device decides: the task's names, tunables, and the manifest's lets over those alone.
Bindings device_free_numbers(const Variant&, const Task&, const Workload&);
// Macros for one compile: "D=128", "BLOCK_M=64", ... sorted. Workloads with equal macros share a binary.
std::vector<std::string> macros(const Variant&, const Task&, const Workload&);

}  // namespace cultivar
