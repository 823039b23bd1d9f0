// SPDX-License-Identifier: Apache-2.0
// Stages 3 to 7 and the checks of stage 11: one variant, one check shape, one run. Every element is compared
// with the oracle; for a shape that costs the oracle too much, secretly chosen blocks of rows and both ends
// are compared.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "evaluators/check/compare.hpp"
#include "evaluators/check/oracle.hpp"
#include "evaluators/devices/device.hpp"
#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/extents.hpp"
#include "evaluators/judge/fault_rejections.hpp"
#include "evaluators/judge/requests.hpp"

namespace cultivar {

struct TimingStock;    // timing/timing_stock.hpp
class CheckBuildRuns;  // check_build_runs.hpp

struct CheckLimits {
  double run_deadline_s = 10.0;
  double oracle_flops =
      6e7;  // limit for one run; larger shapes are checked on secretly chosen blocks of rows
  // Large inputs are windows of its stretches, and errors are first compared with its permitted errors. Null:
  // inputs are drawn for the check, and R comes from the compared rows.
  std::shared_ptr<TimingStock> stock = {};
  // Larger inputs than 64 MiB and than this get no patterns: to draw them takes longer than the rest of a
  // check.
  std::size_t mixed_bytes = 0;
  // A result is awaited: the oracle does not give way to the workers that only search.
  bool awaited = false;
  // Check shapes of other dtypes are left out, unless none would remain; empty: all.
  std::vector<Dtype> dtypes = {};
  // Values of rows before this one are not compared.
  std::int64_t first_row = 0;
  // With what the source may compare values (source_numbers.hpp), for composed ones.
  std::vector<double> thresholds = {};
  // Repeats right runs with check builds. Null: none are repeated. Outlives the checker.
  CheckBuildRuns* check_builds = nullptr;
};

// A few seconds of oracle work. Beyond it, even "every row" means as many blocks of rows as fit.
inline constexpr double kEveryRowFlops = 5e9;

// The rows to compare: all, or whole blocks that include the first and the last.
std::vector<std::int64_t> rows_to_check(const Task&, const Workload&, const RowLayout&, double oracle_flops,
                                        std::uint64_t seed);

// The values of a check's inputs: the task's fills, with a stress case's instead, with secret patterns
// planted (task/mixture.hpp), unless they are too large (CheckLimits), or composed
// (check/oracle.hpp), unless they have more than kComposedBytes.
struct CheckValues {
  const StressCase* stress = nullptr;
  bool mixed = false;
  bool composed = false;
  std::optional<int> kind = {};               // of a composition, see compose_values
  bool drawn_shape = false;                   // for messages
  std::uint64_t machine = 0;                  // whose facts the plan sees (Place in outcomes.hpp)
  std::vector<std::int64_t> tried_rows = {};  // on which a composition is tried, too (composed_inputs)
};
inline constexpr std::size_t kComposedBytes = std::size_t{16} << 20;
// How much more error composed values allow: they may cancel as no listed ones do, and then a sum loses up to
// twenty times more in one order than in another, of which R knows one or two.
inline constexpr double kComposedFactor = 8.0;

// The task with this many times its permitted errors.
Task loosened(Task, double factor);

class Checker {
 public:
  // Keeps references to all arguments.
  Checker(Device& device, const Task& task, const TaskReference& oracle, CheckLimits limits)
      : device_(device),
        task_(task),
        loose_(loosened(task, kComposedFactor)),
        listed_sums_(listed_sums(task)),
        oracle_(oracle),
        limits_(limits) {}

  // Replaces how sessions are opened from now on, for sides that are not variants (see contender_side.hpp).
  using Open = std::function<tl::expected<std::unique_ptr<Session>, Evaluation>()>;
  void open_with(Open open) { open_ = std::move(open); }

  // nullopt: passed.
  std::optional<Evaluation> run_stage(Stage, const Compiled&, std::uint64_t seed, const Announce&);
  // One run of one workload.
  std::optional<Evaluation> check(Stage, const Compiled&, const Workload&, std::uint64_t seed,
                                  const CheckValues& = {});
  // Three runs on the same inputs, which must be bitwise equal.
  std::optional<Evaluation> check_determinism(const Compiled&, const Workload&, std::uint64_t seed);

  // The runs in which the variant was right.
  Checked checked() const;

 private:
  Device& device_;
  const Task& task_;
  const Task loose_;  // what composed values are compared by
  const std::map<std::string, double> listed_sums_;
  const TaskReference& oracle_;
  CheckLimits limits_;
  Open open_;  // empty: open_session
  // One run with the buffers at this one of the target's placements.
  std::optional<Evaluation> check_at(std::uint64_t placement, Stage, const Compiled&, const Workload&,
                                     std::uint64_t seed, const CheckValues&);

  std::vector<LegalError> legal_errors_on(const Workload&, const RowLayout&, const Inputs&) const;
  RowsInPieces::Similar similar_rows(const Workload&, const Oracle&, const Inputs& like,
                                     std::uint64_t seed) const;

  // The stress cases of one shape share a session; a stage starts without one.
  std::unique_ptr<Session> kept_;
  std::string kept_shape_;
  std::vector<std::vector<std::byte>> outputs_;  // only reused memory: every run fills it
  Checked checked_;                              // with the counts of these:
  std::set<std::string> shapes_;
  std::set<std::vector<std::string>> specialisations_;
};

int cores_of(const Facts&);  // number of threads for the oracle: the cpu target's cores, or about half of the
                             // host's cores
// Opens a session for the variant and workload on the device; every failure is a rejection. `in_place`:
// outputs that may have an input's memory have it. `machine`: see Place in outcomes.hpp.
tl::expected<std::unique_ptr<Session>, Evaluation> open_session(Device&, Stage, const Task&, const Compiled&,
                                                                const Workload&, const std::string& where,
                                                                double deadline_s, bool in_place = false,
                                                                std::uint64_t machine = 0);
std::vector<std::vector<std::byte>> output_buffers(const Task&, const Workload&);
// Resizes the outputs, reusing their memory.
void size_outputs(const Task&, const Workload&, std::vector<std::vector<std::byte>>&);

}  // namespace cultivar
