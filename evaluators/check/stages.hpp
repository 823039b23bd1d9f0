// Stages 3 to 7 and the checks of stage 11: one variant, one check shape, one run, every element of it (or,
// of a shape that costs the oracle too much, secretly chosen blocks of rows and both ends) against the
// oracle.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "evaluators/check/compare.hpp"
#include "evaluators/check/oracle.hpp"
#include "evaluators/worker/requests.hpp"

namespace cultivar {

struct TimingStock;  // timing/timing_stock.hpp

// What the target computes in; a task's dtypes are cut down to these.
std::vector<Dtype> dtypes_of(TargetKind);

// The task's shapes for smoke, sweep, stress or edge in each dtype of the target.
std::vector<Workload> check_shapes(const Task&, Stage, TargetKind);
// Those of them that the variant claims.
std::vector<Workload> claimed_shapes(const Task&, Stage, const Variant&);
// The holdout set that the variant claims: the target's own ("cpu_holdout") when the task has one, else
// "holdout".
std::vector<Workload> holdout_workloads(const Task&, const Variant&);
// All of these that the variant claims: what it must be right on before it may become the best, beside what
// is timed.
std::vector<Workload> every_claimed_shape(const Task&, const Variant&);
// Every macro assignment to compile, without repetition; the one that smoke needs comes first.
std::vector<std::vector<std::string>> macro_assignments(const Task&, const Variant&,
                                                        const std::vector<Workload>&, Breadth);

// What the device would refuse (a constraint, a plan) of the check shapes that it runs beside these
// workloads: those that the variant claims and that share a binary with them, or are compiled for their
// stage's sake. nullopt: nothing, as far as these facts tell.
std::optional<Evaluation> illegal_on_check_shapes(const Task&, const Variant&, const std::vector<Workload>&,
                                                  const Facts&);

struct CheckLimits {
  double run_deadline_s = 10.0;
  double oracle_flops = 6e7;  // for one run; shapes beyond it are checked on secretly chosen blocks of rows
  // Large inputs are windows of its stretches, and errors are first compared with what it knows to be legal;
  // none: inputs are drawn for the check, and R is taken from the compared rows.
  std::shared_ptr<TimingStock> stock = {};
};

// Some seconds of the oracle's work: beyond it even "every row" is the most blocks of rows that fit.
inline constexpr double kEveryRowFlops = 5e9;

// Rows to compare: all, or whole blocks among which are the first and the last.
std::vector<std::int64_t> rows_to_check(const Task&, const Workload&, const RowLayout&, double oracle_flops,
                                        std::uint64_t seed);

// Faults that noise on a busy machine can look like; a kernel that earns one so many times in a row is not
// noise.
bool may_be_noise(Fault::Kind);
inline constexpr int kNoiseLimit = 3;

// In words: what a variant did to earn this fault, and where to look.
Evaluation rejection_of(Stage, const Fault&, const std::string& where);

class Checker {
 public:
  // Keeps references to all of them.
  Checker(Device& device, const Task& task, const OracleLibrary& oracle, CheckLimits limits)
      : device_(device), task_(task), oracle_(oracle), limits_(limits) {}

  // How sessions are opened from now on: for what is not a variant (see contender_side.hpp).
  using Open = std::function<tl::expected<std::unique_ptr<Session>, Evaluation>()>;
  void open_with(Open open) { open_ = std::move(open); }

  using Progress = std::function<void(const std::string&)>;
  // nullopt: passed.
  std::optional<Evaluation> run_stage(Stage, const Compiled&, std::uint64_t seed, const Progress&);
  // One run of one workload under these fills (stress) or the task's own.
  std::optional<Evaluation> check(Stage, const Compiled&, const Workload&, std::uint64_t seed,
                                  const StressCase* stress = nullptr);
  // Three runs of it on the same inputs, bitwise equal.
  std::optional<Evaluation> check_determinism(const Compiled&, const Workload&, std::uint64_t seed);

 private:
  Device& device_;
  const Task& task_;
  const OracleLibrary& oracle_;
  CheckLimits limits_;
  Open open_;  // empty: open_session
  // The stress cases of one shape share a session; a stage starts without.
  std::unique_ptr<Session> kept_;
  std::string kept_shape_;
  std::vector<std::vector<std::byte>> outputs_;  // memory alone: every run fills it
};

int cores_of(const Facts&);  // threads for the oracle: the cpu target's cores, or about half of the host's
// Binds the variant to the workload on the device; every way in which that fails is a rejection.
tl::expected<std::unique_ptr<Session>, Evaluation> open_session(Device&, Stage, const Task&, const Compiled&,
                                                                const Workload&, const std::string& where,
                                                                double deadline_s);
std::vector<std::vector<std::byte>> output_buffers(const Task&, const Workload&);
// The same, over memory that is there.
void size_outputs(const Task&, const Workload&, std::vector<std::vector<std::byte>>&);

}  // namespace cultivar
