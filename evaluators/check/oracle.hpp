// The oracle: a task's reference.cpp, built by the host compiler and loaded into this (trusted) process. It
// computes any rows of the output in double precision from the exact values of the low-precision inputs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluators/task/cultivar_reference.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// The legal roundings' error of one output.
struct LegalError {
  double max = 0.0, rms = 0.0;
};

using RowFunction = void (*)(const ReferenceArgs& args, std::int64_t row, double* out);

// Stays loaded as long as any copy lives. Thread-safe.
class OracleLibrary {
 public:
  // Builds folder/reference.cpp unless `cache` has it already. An Error holds the compiler's words.
  static Expected<OracleLibrary> build(const Task&, const std::filesystem::path& cache,
                                       double deadline_s = 120.0);

  RowFunction exact() const { return exact_; }
  RowFunction rounded() const { return rounded_; }     // nullptr: the task models no legal roundings
  RowFunction control(const std::string& name) const;  // nullptr: reference.cpp lacks control_<name>

  // R of a workload (see compare.hpp), kept beside the library: a new worker need not take it again. Empty:
  // unknown.
  std::vector<LegalError> known_legal_errors(const std::string& workload) const;
  void keep_legal_errors(const std::string& workload, const std::vector<LegalError>&) const;

 private:
  std::shared_ptr<void> handle_;
  std::filesystem::path folder_;
  RowFunction exact_ = nullptr, rounded_ = nullptr;
};

// The exact values of one run's inputs, in the task's order; they belong to the caller.
struct InputView {
  std::span<const double* const> values;
  std::span<const std::byte* const> stored = {};  // the same elements in their own type
};

// Inputs that own their memory.
struct Inputs {
  std::vector<std::vector<std::byte>> bytes;  // the task's input tensors, in order
  std::vector<std::vector<double>> decoded;
  std::vector<const double*> values;     // into `decoded`
  std::vector<const std::byte*> stored;  // into `bytes`

  InputView view() const { return {values, stored}; }
};

// Fills by the task, or by `fills` where that names a tensor.
Inputs make_inputs(const Task&, const Workload&, std::uint64_t seed,
                   const std::map<std::string, Fill>& fills = {});

// Oracle rows of one workload. Not thread-safe; uses up to `threads` threads itself.
class Oracle {
 public:
  // Keeps references to both for its lifetime.
  Oracle(const OracleLibrary&, const Task&, const Workload&, int threads);

  // out[i * row_elements + e]: element e of rows[i].
  std::vector<double> rows(RowFunction, const InputView&, std::span<const std::int64_t> rows,
                           std::int64_t row_elements) const;
  const OracleLibrary& library() const { return library_; }
  // From now on its threads, all but the process's first, give way to others: something is timed meanwhile.
  void give_way() { gives_way_ = true; }

 private:
  const OracleLibrary& library_;
  std::vector<std::string> input_names_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<ReferenceType> types_;
  std::vector<std::pair<std::string, double>> numbers_;
  double (*round_)(double) = nullptr;
  int threads_;
  bool gives_way_ = false;
};

}  // namespace cultivar
