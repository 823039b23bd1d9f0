// The one place that says whether a challenger is better than the incumbent. It draws the order in which the
// sides run, takes their times block by block, and says when to stop. It runs nothing itself.
//
//   Gate gate(names, options, seed);
//   while (!gate.done()) gate.add(time_each(gate.next_order()));
//   Decision decision = gate.decision();
//
// Better: the geometric mean of the workloads' speed ratios is above 1 + min_gain, shown by a sequential test
// at `alpha`, and for every workload a loss of max_workload_loss or more is ruled out. Worse: a gain of
// min_gain is ruled out (at `futility`), or some workload's loss is shown. Undecided: neither, when the time
// is up. Only `better` may replace. What is promised: a challenger whose true gain is min_gain or less is
// called better with a probability of at most `alpha`, however noisy the machine and however often one looks.
// Not thread-safe; deterministic: the same options, seed and times give the same orders and the same
// decision.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

enum class Verdict { better, worse, undecided };
std::string_view name_of(Verdict);

enum class Side { challenger, incumbent, control };
std::string_view name_of(Side);

struct GateOptions {
  double min_gain = 0.005;          // of the geometric mean; 0.005 = 0.5 % faster
  double max_workload_loss = 0.02;  // of any one workload
  double alpha = 0.01;     // false promotion, for this comparison: take it from the run's AlphaLedger
  double futility = 0.05;  // a gain of min_gain wrongly ruled out
  double guard = 0.05;     // a workload's loss wrongly ruled out; the same, over all, for wrongly shown
  int min_blocks = 8, max_blocks = 2000;
  double max_device_seconds = 10.0;  // summed over all blocks; checked after each
};

// One timed run: which side, on which of the gate's workloads.
struct Slot {
  int workload = 0;
  Side side = Side::control;
  bool operator==(const Slot&) const = default;
};

// Natural logarithms of time(incumbent) / time(challenger): 0.01 = the challenger is 1 % faster. Bounds are
// infinite (null in JSON) as long as there are too few blocks.
struct WorkloadRatio {
  std::string workload;
  double log_ratio = 0.0, lower = 0.0,
         upper = 0.0;  // lower at `guard`, upper at `guard` / number of workloads
};

struct Decision {
  Verdict verdict = Verdict::undecided;
  std::string reason;                                // one line of words and figures
  double log_ratio = 0.0, lower = 0.0, upper = 0.0;  // lower at `alpha`, upper at `futility`
  int blocks = 0;
  double device_seconds = 0.0;
  double control_drift = 0.0;  // log(later half / first half) of the control's times: 0.01 = it slowed by 1 %
  std::vector<WorkloadRatio> workloads;
};
void to_json(nlohmann::json&, const Decision&);
void from_json(const nlohmann::json&, Decision&);  // throws nlohmann::json::exception

class Gate {
 public:
  // Throws std::invalid_argument for options that make no sense or no workloads.
  Gate(std::vector<std::string> workloads, GateOptions options, std::uint64_t seed);
  ~Gate();
  Gate(Gate&&) noexcept;
  Gate& operator=(Gate&&) noexcept;

  // What to time next, in this order: each workload's two sides next to each other, in an order drawn by a
  // fair coin, and the control once, on the first workload. The same until add().
  const std::vector<Slot>& next_order() const;

  // The seconds of each slot of next_order(). `device_seconds` is what the block cost in all, with its
  // warm-up, flushes and checks; 0 = the sum of `seconds`. Throws std::invalid_argument for a wrong count or
  // a time that is not positive and finite, and std::logic_error after done().
  void add(std::span<const double> seconds, double device_seconds = 0.0);

  bool done() const;
  Verdict verdict() const;    // undecided until done
  Decision decision() const;  // at any time; costs milliseconds after thousands of blocks

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
