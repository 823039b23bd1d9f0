// SPDX-License-Identifier: Apache-2.0
// The oracle: what a task's reference computes for the judge, and the inputs for which it does.
#pragma once

#include <cfenv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/references/reference.hpp"
#include "evaluators/system/huge_pages.hpp"

namespace cultivar {

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
Inputs make_inputs(const TaskReference*, const Task&, const Workload&, std::uint64_t seed,
                   const std::map<std::string, Fill>& fills = {}, std::optional<std::uint64_t> mixture = {});
// The same, changed before anything is derived from them: `alter` returns a description of what it did, which
// becomes Inputs::mixture.
using AlterInputs = std::function<std::string(std::span<std::vector<std::byte>>)>;
Inputs make_altered_inputs(const TaskReference*, const Task&, const Workload&, std::uint64_t seed,
                           const std::map<std::string, Fill>& fills, const AlterInputs& alter);
// Inputs that round differently and are otherwise like these (task/mixture.hpp); derived ones follow.
Inputs similar_inputs(const TaskReference&, const Task&, const Workload&, const Inputs&, std::uint64_t seed);
// Sets `values` and `stored` of inputs whose bytes are known.
void decode_inputs(const Task&, const Workload&, Inputs&);

// What a comparison asks about whole numbers that are not the oracle's.
struct IndexRule {
  // Of each answer, whether the reference says that it is right as well; all of them concern outputs of the
  // task. Empty: none is.
  std::function<std::vector<bool>(std::span<const IndexAnswer>)> right;
  // Computes these rows anew with the whole numbers of `given`, values of the same rows: what follows from
  // indices that were right. Empty: nothing does.
  std::function<std::vector<double>(RowFunction, std::span<const std::int64_t> rows,
                                    std::span<const double> given)>
      follow;
};

// Computes oracle rows of one workload, with up to `threads` threads of its own. Not thread-safe.
class Oracle {
 public:
  // Keeps a reference to the task's reference for its lifetime.
  Oracle(const TaskReference&, const Task&, const Workload&, int threads);

  // The elements of these rows (of RowLayout), one row after the other. Throws std::runtime_error if the
  // function crashes or does more than compute.
  std::vector<double> rows(RowFunction, const InputView&, std::span<const std::int64_t> rows) const;
  // The same, stored in `out`. `rounding`: the function's arithmetic rounds in this direction (fenv.h).
  void rows(RowFunction, const InputView&, std::span<const std::int64_t> rows, std::span<double> out,
            int rounding = FE_TONEAREST) const;
  // The same of the derived inputs, for all rows of `derived` (RowLayout::of_derived); inputs that are not
  // known yet are not read.
  std::vector<double, HugePages<double>> derived(const RowLayout& derived, const InputView&) const;
  // For a comparison; empty if the task has no rule. It keeps a reference to this oracle and the spans of
  // `inputs`.
  IndexRule index_rule(const InputView& inputs) const;
  const TaskReference& reference() const { return reference_; }
  // Lowers the priority of all its threads except the process's main thread, because something is being timed
  // meanwhile.
  void give_way() { gives_way_ = true; }

 private:
  const TaskReference& reference_;
  RowLayout layout_;
  ReferenceWorkload workload_;
  int threads_;
  bool gives_way_ = false;
};

// Opens the reference of a task, in whichever language it is written. `cache`: a folder for what is compiled.
// `python`: the interpreter of references in Python, a path or a name in PATH. An Error says what is wrong
// with the reference, or what is missing here.
Expected<TaskReference> open_reference(const Task&, const std::filesystem::path& cache,
                                       const std::string& python = "python3", double deadline_s = 120.0);

// Inputs with composed values (task/composition.hpp) that a sound computation bears.

// The strongest composition on which the oracle's values are finite and the permitted roundings lose little
// of them, also if all that is large were eight times as large: a kernel that computes in f32 may overflow or
// cancel in another place than the rounding model. Plain inputs with an empty `mixture` if there is none.
// `threads`: of the oracle. Takes up to six times as long as make_inputs, and the oracle's time for a few
// rows.
// `kind`, `thresholds`: see compose_values.
// This is tried on a few rows, and on those of `also`: where outputs were wrong, perhaps because nobody tried
// it there.
Inputs composed_inputs(const TaskReference&, const Task&, const Workload&, std::uint64_t seed, int threads,
                       std::optional<int> kind = {}, std::span<const double> thresholds = {},
                       std::span<const std::int64_t> also = {});

}  // namespace cultivar
