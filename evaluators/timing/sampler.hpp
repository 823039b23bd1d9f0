// Timed runs of one workload. Every one has inputs that no run had before, poisoned outputs, and a secret
// sample of rows checked against the oracle afterwards: a number without a check does not exist here.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/check/stages.hpp"
#include "evaluators/timing/input_pool.hpp"
#include "evaluators/timing/roofline.hpp"
#include "evaluators/timing/timing_stock.hpp"

namespace cultivar {

// A variant or contender on one workload.
struct SampledSide {
  std::string name;
  std::function<tl::expected<std::unique_ptr<Session>, Evaluation>()> open;
  std::unique_ptr<Session> session = nullptr;  // opened by the first run, and again after noise
  std::vector<Sample> samples = {};
  std::string trouble = {};    // a contender that failed: it drops out, and this says why
  std::int64_t discarded = 0;  // runs that did not count
  std::string why_discarded = {};
};

// Runs that are timed and not counted, before the first that is.
struct WarmUp {
  int runs = 10;
  double seconds = 0.0;    // wall time, besides the runs
  double enough_s = 0.05;  // wall time after which it is warm whatever else
  bool checked = true;     // like counted runs

  // On a device of its own an output that nobody compares costs next to nothing.
  static WarmUp of(TargetKind);
};

// One workload's inputs, secret rows and expected values. Not thread-safe.
class TimedRuns {
 public:
  // Keeps references to task and library.
  TimedRuns(const Task&, const OracleLibrary&, const Workload&, std::uint64_t seed, int oracle_rows,
            double run_deadline_s, int oracle_threads, std::shared_ptr<TimingStock> = nullptr);
  ~TimedRuns();
  // From now on the oracle may work while a run is under way: right where runs leave the host's cores alone.
  void work_beside_runs() {
    beside_ = true;
    oracle_.give_way();
  }

  // New inputs and new secret rows. Sides that are compared run on the same ones.
  void next();
  // One timed run on the current inputs, and its check. A fault or a wrong row is a rejection.
  tl::expected<Sample, Evaluation> time(SampledSide&);
  // The same without the check; its number must not count.
  tl::expected<Sample, Evaluation> warm(SampledSide&);

  const Workload& workload() const { return workload_; }

 private:
  const Task& task_;
  const OracleLibrary& library_;
  Workload workload_;
  std::uint64_t seed_, run_ = 0;
  int oracle_rows_;
  double run_deadline_s_;
  RowLayout layout_;
  tl::expected<Sample, Evaluation> run(SampledSide&);
  tl::expected<Sample, Evaluation> check(Session&, const Sample&);

  Oracle oracle_;
  std::shared_ptr<TimingStock> stock_;
  InputPool pool_;
  std::vector<std::vector<std::byte>> outputs_;
  std::vector<std::int64_t> rows_;
  std::vector<std::vector<std::int64_t>> wanted_;  // elements of rows_, by output
  std::vector<double> exact_, rounded_;  // of rows_; empty until a run of the current inputs has ended
  bool beside_ = false;
  std::future<std::vector<double>> ahead_;  // what exact_ will be
};

// Times sides[0] (the variant) and, interleaved in random order, the contenders after it. A rejection is the
// variant's own. `alive` is called before every block.
std::optional<Evaluation> sample(TimedRuns&, std::vector<SampledSide>& sides, const Sampling&,
                                 double incumbent_us, double give_up, std::uint64_t seed,
                                 const std::function<void()>& alive,
                                 const WarmUp& = WarmUp::of(TargetKind::cpu));

// Median, quartiles, value and ratios of what was sampled.
WorkloadResult summarise(const Task&, const Workload&, TargetKind, const std::vector<SampledSide>& sides);

}  // namespace cultivar
