// SPDX-License-Identifier: Apache-2.0
// The oracle: a task's reference.cpp, built by the host compiler in a sandbox. It computes any rows of the
// output in double precision from the exact values of the low-precision inputs. A task may come from anybody,
// so its functions are called in processes of their own (oracle_process.hpp). Those of the tasks that come
// with Cultivar, told by their contents, are called in this process, which is faster.
#pragma once

#include <cfenv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluators/check/rows.hpp"
#include "evaluators/system/huge_pages.hpp"
#include "evaluators/task/cultivar_reference.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// The error of the permitted ("legal") roundings in one output.
struct LegalError {
  double max = 0.0, rms = 0.0;
};

struct OracleRow;  // oracle_process.hpp

// A function of reference.cpp by its name, which the library owns; null if reference.cpp lacks it.
using RowFunction = const char*;

// Thread-safe, and so are its copies, which share the names.
class OracleLibrary {
  struct ControlNames;

 public:
  // Builds folder/reference.cpp unless it is in `cache`. An Error contains the compiler's messages.
  static Expected<OracleLibrary> build(const Task&, const std::filesystem::path& cache,
                                       double deadline_s = 120.0);

  RowFunction exact() const { return "reference_row"; }
  // nullptr if the task does not model roundings
  RowFunction rounded() const { return has_rounded_ ? "reference_row_rounded" : nullptr; }
  // nullptr if every whole number must be the oracle's
  RowFunction index_rule() const { return has_index_rule_ ? "is_right_index" : nullptr; }
  RowFunction control(const std::string& name) const;  // nullptr if reference.cpp lacks control_<name>
  const std::filesystem::path& file() const { return file_; }
  // The function itself if it may be called in this process; otherwise null.
  using Function = void (*)(const ReferenceArgs& args, std::int64_t row, double* out);
  Function here(RowFunction) const;

  // R of a workload (see compare.hpp), cached beside the library so that a new worker need not compute it
  // again. Empty if unknown.
  std::vector<LegalError> known_legal_errors(const std::string& workload) const;
  void keep_legal_errors(const std::string& workload, const std::vector<LegalError>&) const;

 private:
  std::shared_ptr<void> handle_;  // null if its functions are called elsewhere
  std::shared_ptr<ControlNames> controls_;
  std::filesystem::path folder_, file_;
  bool has_rounded_ = false, has_index_rule_ = false;
};

// The exact values of one run's inputs, in the task's order; owned by the caller.
struct InputView {
  std::span<const double* const> values;
  std::span<const std::byte* const> stored = {};  // the same elements in their stored type
};

// Inputs that own their memory.
struct Inputs {
  std::vector<std::vector<std::byte>> bytes;  // of the task's input tensors, in order
  std::vector<std::vector<double, HugePages<double>>> decoded;
  std::vector<const double*> values;     // pointers into `decoded`
  std::vector<const std::byte*> stored;  // pointers into `bytes`
  std::string mixture;                   // what mix_values planted; empty: nothing

  InputView view() const { return {values, stored}; }
};

// decode() with several threads.
void decode_all(Dtype, std::span<const std::byte> elements, std::span<double> out);

// Fills inputs as the task says, or by `fills` for the tensors that it names. `mixture`: the seed of secret
// patterns to plant in them (task/mixture.hpp). The library computes derived inputs from the others; only a
// task without them needs none.
Inputs make_inputs(const OracleLibrary*, const Task&, const Workload&, std::uint64_t seed,
                   const std::map<std::string, Fill>& fills = {}, std::optional<std::uint64_t> mixture = {});
// The same, changed before anything is derived from them: `alter` returns a description of what it did, which
// becomes Inputs::mixture.
using AlterInputs = std::function<std::string(std::span<std::vector<std::byte>>)>;
Inputs make_altered_inputs(const OracleLibrary*, const Task&, const Workload&, std::uint64_t seed,
                           const std::map<std::string, Fill>& fills, const AlterInputs& alter);
// Inputs that round differently and are otherwise like these (task/perturbation.hpp); derived ones follow.
Inputs similar_inputs(const OracleLibrary&, const Task&, const Workload&, const Inputs&, std::uint64_t seed);
// Sets `values` and `stored` of inputs whose bytes are known.
void decode_inputs(const Task&, const Workload&, Inputs&);

// Computes oracle rows of one workload, with up to `threads` threads of its own. Not thread-safe.
class Oracle {
 public:
  // Keeps references to the library and the task for its lifetime.
  Oracle(const OracleLibrary&, const Task&, const Workload&, int threads);

  // The elements of these rows (of RowLayout), one row after the other. Throws std::runtime_error if the
  // function crashes or does more than compute.
  std::vector<double> rows(RowFunction, const InputView&, std::span<const std::int64_t> rows) const;
  // The same, stored in `out`. `rounding`: the function's arithmetic rounds in this direction (fenv.h).
  void rows(RowFunction, const InputView&, std::span<const std::int64_t> rows, std::span<double> out,
            int rounding = FE_TONEAREST) const;
  // The same of derive_row, for all rows of `derived` (RowLayout::of_derived); inputs that are not known yet
  // are not read.
  std::vector<double, HugePages<double>> derived(const RowLayout& derived, const InputView&) const;
  // Of each answer, whether is_right_index says that it is right; all of them concern outputs of the task.
  std::vector<bool> right(const InputView&, std::span<const IndexAnswer>) const;
  // The same as a function for a comparison (compare.hpp); empty if the task has no rule. It keeps a
  // reference to this oracle and the spans of `inputs`.
  std::function<std::vector<bool>(std::span<const IndexAnswer>)> index_rule(const InputView& inputs) const;
  const OracleLibrary& library() const { return library_; }
  // Lowers the priority of all its threads except the process's main thread, because something is being timed
  // meanwhile.
  void give_way() { gives_way_ = true; }

 private:
  void compute(RowFunction, const RowLayout&, const InputView&, std::span<const std::int64_t> rows,
               std::span<double> out, int rounding = FE_TONEAREST) const;
  struct Arguments;
  void call(RowFunction, std::span<const OracleRow>, std::span<double> out,
            int rounding = FE_TONEAREST) const;

  const OracleLibrary& library_;
  RowLayout layout_;
  std::vector<std::string> input_names_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<ReferenceType> types_;
  std::vector<std::pair<std::string, double>> numbers_;
  double (*round_)(double) = nullptr;
  ReferenceType rounds_to_ = ReferenceType::other;
  int threads_;
  double permitted_unit_;  // IndexAnswer::unit
  bool gives_way_ = false;
};

}  // namespace cultivar
