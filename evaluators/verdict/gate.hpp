// SPDX-License-Identifier: Apache-2.0
// The only code that decides whether a challenger is better than the incumbent. It draws the order in which
// the sides run, takes their times block by block, and says when to stop. It runs nothing itself.
//
//   Gate gate(names, options, seed, pilots);
//   while (!gate.done()) gate.add(time_each(gate.next_order()));
//   Decision decision = gate.decision();
//
// Two tests share the levels: exact rank-sum tests on batches in random order (batches.hpp), if the pilots
// show a plain difference, and a sequential test on randomized pairs. Better: the geometric mean of the
// workloads' speed ratios is shown, at level `alpha`, to be above 1 + min_gain, and for every workload a loss
// of max_workload_loss or more is ruled out. Worse: a gain of min_gain is ruled out (at level `futility`), or
// the loss of some workload is shown. Undecided: neither when the limit is reached. Only `better` may replace
// the incumbent. Guarantee: a challenger whose true gain is min_gain or less is called better with a
// probability of at most `alpha`, however noisy the machine and however often the test is evaluated; a duel
// that goes on later is the same test. Not thread-safe; deterministic: equal options, seed, pilots and times
// give equal orders and decisions.
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

// What short runs before the duel say about one workload: medians, and what a run costs with its inputs and
// its check. They decide only whether there are batches, and their sizes.
struct Pilot {
  double challenger_seconds = 0.0, incumbent_seconds = 0.0;
  double challenger_cost = 0.0, incumbent_cost = 0.0;
};

// Everything that a gate was told, from which another gate with the same options and seed continues: the
// earlier duel and the later one are one test at one alpha.
struct DuelTimes {
  struct Block {  // or a batch
    std::vector<double> seconds;
    double device_seconds = 0.0;
  };
  std::vector<Pilot> pilots;
  std::vector<Block> blocks;
};
void to_json(nlohmann::json&, const DuelTimes&);
void from_json(const nlohmann::json&, DuelTimes&);  // throws nlohmann::json::exception

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
  // Summed over all blocks; checked after each. Beyond it a duel goes on only to the blocks that the pairs
  // need at this alpha (Gate::least_blocks), and only while `better` can still be reached by then.
  double max_device_seconds = 10.0;
  // Nothing begins, except the first block, that would exceed the limit, if it costs as much as those before
  // it. Not part of the JSON: no duel of a search has it.
  bool within_limit = false;
};

void to_json(nlohmann::json&, const GateOptions&);
void from_json(const nlohmann::json&, GateOptions&);  // throws nlohmann::json::exception

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
  int blocks = 0;                                    // of pairs
  int batches = 0;                                   // before them
  std::int64_t runs = 0;                             // in batches, on all workloads
  double device_seconds = 0.0;
  double control_drift =
      0.0;  // log(later half / first half) of the control's times: 0.01 means that it slowed by 1 %
  std::vector<WorkloadRatio> workloads;
};
void to_json(nlohmann::json&, const Decision&);
void from_json(const nlohmann::json&, Decision&);  // throws nlohmann::json::exception

class Gate {
 public:
  // Throws std::invalid_argument for invalid options, an empty list of workloads, or pilots that are neither
  // none nor one with positive times for each workload.
  Gate(std::vector<std::string> workloads, GateOptions options, std::uint64_t seed,
       std::vector<Pilot> pilots = {});
  ~Gate();
  Gate(Gate&&) noexcept;
  Gate& operator=(Gate&&) noexcept;

  // What to time next, in this order. A batch: each workload's runs, in completely random order, each with
  // new inputs. A block: for each workload its two sides next to each other, on the same inputs, in an order
  // drawn by a fair coin, and the control once, on the first workload, unless it has taken more than half of
  // the time so far. Unchanged until add().
  const std::vector<Slot>& next_order() const;
  bool in_batch() const;

  // `seconds` has one time for each slot of next_order(). `device_seconds` is the total cost of the block
  // including warm-up, flushes and checks; 0 = the sum of `seconds`. Throws std::invalid_argument for a wrong
  // count or a time that is not positive and finite, and std::logic_error after done().
  void add(std::span<const double> seconds, double device_seconds = 0.0);

  // The blocks that the pairs need, and half as many again: the four that only measure the noise, and those
  // that reach 1 / alpha if every bet wins.
  int least_blocks() const;

  bool done() const;
  Verdict verdict() const;  // undecided until done()
  // Only the limit of device time ended it, and the evidence for a gain has grown: more time may decide.
  bool may_go_on() const;
  Decision decision() const;  // at any time; costs milliseconds after thousands of blocks

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
