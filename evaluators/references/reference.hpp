// SPDX-License-Identifier: Apache-2.0
// A task's reference: what defines the correct result. It computes any rows of the outputs in double
// precision from the exact values of the low-precision inputs, what the permitted roundings make of them, and
// wrong kernels that the checks must reject. Which language it is written in, only its room knows (cpp/,
// python/); check/oracle.hpp opens that of a task.
#pragma once

#include <cfenv>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evaluators/references/cultivar_reference.hpp"
#include "evaluators/references/rows.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// The error of the permitted ("legal") roundings in one output.
struct LegalError {
  double max = 0.0, rms = 0.0;
};

// The exact values of one run's inputs, in the task's order; owned by the caller.
struct InputView {
  std::span<const double* const> values;
  std::span<const std::byte* const> stored = {};  // the same elements in their stored type
};

// One workload as references see it. Keeps no reference to its arguments.
struct ReferenceWorkload {
  ReferenceWorkload(const Task&, const Workload&);
  struct Input {
    std::string name;
    std::vector<std::string> dimensions;
    std::vector<std::int64_t> shape;
    Dtype dtype = Dtype::f32;
  };
  std::vector<Input> inputs;
  std::vector<std::pair<std::string, double>> numbers;  // dimensions, parameters, lets
  Dtype dtype = Dtype::f32;                             // of the workload
  double permitted_unit = 0.0;                          // IndexAnswer::unit
};

// A function of a reference, by its name, which the reference owns; null if it has no such function.
using RowFunction = const char*;

// In place of a direction: to the nearest, and to 0 below the smallest normal number, as fast exponentials
// do.
inline constexpr int kFlushing = -1;

// What is asked of one function: rows (of `layout`), or verdicts on answers.
struct RowsAsked {
  const ReferenceWorkload& workload;
  const RowLayout& layout;
  const InputView& inputs;
  std::span<const std::int64_t> rows;
  std::span<const IndexAnswer> answers = {};  // of the index rule; then `rows` is empty
  // Values of the rows, whose whole numbers take the place of those that the reference chooses; see
  // follows_indices.
  std::span<const double> given = {};
  int threads = 1;
  bool gives_way = false;       // something is being timed meanwhile: a lower priority
  int rounding = FE_TONEAREST;  // the direction in which arithmetic rounds (fenv.h), or kFlushing
};

// What a language implements. Thread-safe.
class ReferenceProgram {
 public:
  ReferenceProgram() = default;
  ReferenceProgram(const ReferenceProgram&) = delete;
  ReferenceProgram& operator=(const ReferenceProgram&) = delete;
  virtual ~ReferenceProgram() = default;
  // Its functions are called in this process.
  virtual bool is_here() const { return false; }
  // It computes rows with indices that are given, and what follows from them.
  virtual bool follows_indices() const { return false; }
  // Throws std::runtime_error if that cannot be found out.
  virtual bool defines(const std::string& function) const = 0;
  // How a user declares such a function, for messages.
  virtual std::string declaration_of(const std::string& function) const = 0;
  // The rows' elements, one row after the other, or 1 (right) and 0 for each answer. Throws
  // std::runtime_error if the function crashes, does more than compute, or takes too long.
  virtual void compute(RowFunction, const RowsAsked&, std::span<double> out) const = 0;
};

// Copies share the program. Thread-safe.
class TaskReference {
 public:
  // `kept`: a folder of this reference alone, in which R of workloads is kept.
  TaskReference(std::shared_ptr<const ReferenceProgram>, std::filesystem::path kept, bool index_rule);

  RowFunction exact() const { return "exact"; }
  RowFunction derived() const { return "derived"; }
  // nullptr if the task does not model roundings
  RowFunction rounded() const { return has_rounded_ ? "rounded" : nullptr; }
  // The same, but an element that overflows in a permitted rounding on the way to a finite result is not
  // finite: it says of drawn inputs whether a sound computation bears them.
  RowFunction rounded_or_overflow() const { return has_overflow_ ? "rounded_or_overflow" : rounded(); }
  // nullptr if every whole number must be the reference's
  RowFunction index_rule() const { return has_index_rule_ ? "is_right_index" : nullptr; }
  RowFunction control(const std::string& name) const;  // nullptr if it lacks this control

  const ReferenceProgram& program() const { return *program_; }

  // R of a workload (see check/compare.hpp), kept so that a new worker need not compute it again. Empty if
  // unknown.
  std::vector<LegalError> known_legal_errors(const std::string& workload) const;
  void keep_legal_errors(const std::string& workload, const std::vector<LegalError>&) const;

 private:
  struct ControlNames;
  std::shared_ptr<const ReferenceProgram> program_;
  std::shared_ptr<ControlNames> controls_;
  std::filesystem::path kept_;
  bool has_rounded_ = false, has_overflow_ = false, has_index_rule_ = false;
};

}  // namespace cultivar
