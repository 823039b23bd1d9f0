// The only code that decides whether a challenger is better than the incumbent. It draws the order in which
// the sides run, takes their times block by block, and says when to stop. It runs nothing itself.
//
//   Gate gate(names, options, seed);
//   while (!gate.done()) gate.add(time_each(gate.next_order()));
//   Decision decision = gate.decision();
//
// Better: a sequential test at level `alpha` shows that the geometric mean of the workloads' speed ratios is
// above 1 + min_gain, and for every workload a loss of max_workload_loss or more is ruled out. Worse: a gain
// of min_gain is ruled out (at level `futility`), or the loss of some workload is shown. Undecided: neither
// when the time limit is reached. Only `better` may replace the incumbent. Guarantee: a challenger whose true
// gain is min_gain or less is called better with a probability of at most `alpha`, however noisy the machine
// and however often the test is evaluated. Not thread-safe; deterministic: equal options, seed and times give
// equal orders and decisions.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

enum class Verdict { better, worse, undecided };
std::string_view name_of(Verdict);
std::optional<Verdict> verdict_named(std::string_view);

enum class Side { challenger, incumbent, control };
std::string_view name_of(Side);

struct GateOptions {
  double min_gain = 0.005;          // of the geometric mean; 0.005 means 0.5 % faster
  double max_workload_loss = 0.02;  // of any one workload
  double alpha =
      0.01;  // probability of a false promotion by this comparison; take it from the run's AlphaLedger
  double futility = 0.05;  // probability that a gain of min_gain is wrongly ruled out
  double guard = 0.05;  // probability that a workload's loss is wrongly ruled out; over all workloads, that
                        // one is wrongly shown
  int min_blocks = 8, max_blocks = 2000;
  double max_device_seconds = 10.0;  // summed over all blocks; checked after each
};

// One timed run: a side on one of the gate's workloads.
struct Slot {
  int workload = 0;
  Side side = Side::control;
  bool operator==(const Slot&) const = default;
};

// Natural logarithms of time(incumbent) / time(challenger): 0.01 means that the challenger is 1 % faster.
// Bounds are infinite (null in JSON) until there are enough blocks.
struct WorkloadRatio {
  std::string workload;
  double log_ratio = 0.0, lower = 0.0,
         upper = 0.0;  // lower at `guard`, upper at `guard` / number of workloads
};

struct Decision {
  Verdict verdict = Verdict::undecided;
  std::string reason;                                // one line
  double log_ratio = 0.0, lower = 0.0, upper = 0.0;  // lower at `alpha`, upper at `futility`
  int blocks = 0;
  double device_seconds = 0.0;
  double control_drift =
      0.0;  // log(later half / first half) of the control's times: 0.01 means that it slowed by 1 %
  std::vector<WorkloadRatio> workloads;
};
void to_json(nlohmann::json&, const Decision&);
void from_json(const nlohmann::json&, Decision&);  // throws nlohmann::json::exception

class Gate {
 public:
  // Throws std::invalid_argument for invalid options or an empty list of workloads.
  Gate(std::vector<std::string> workloads, GateOptions options, std::uint64_t seed);
  ~Gate();
  Gate(Gate&&) noexcept;
  Gate& operator=(Gate&&) noexcept;

  // What to time next, in this order: for each workload its two sides next to each other, in an order drawn
  // by a fair coin, and the control once, on the first workload. Unchanged until add().
  const std::vector<Slot>& next_order() const;

  // `seconds` has one time for each slot of next_order(). `device_seconds` is the total cost of the block
  // including warm-up, flushes and checks; 0 = the sum of `seconds`. Throws std::invalid_argument for a wrong
  // count or a time that is not positive and finite, and std::logic_error after done().
  void add(std::span<const double> seconds, double device_seconds = 0.0);

  bool done() const;
  Verdict verdict() const;    // undecided until done()
  Decision decision() const;  // at any time; costs milliseconds after thousands of blocks

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
