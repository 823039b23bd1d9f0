// SPDX-License-Identifier: Apache-2.0
// What the checks and timed runs of one worker share and need not create again: memory, and facts that depend
// only on workloads.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/check/oracle.hpp"
#include "evaluators/references/rows.hpp"
#include "evaluators/timing/input_pool.hpp"

namespace cultivar {

// Inputs of a workload with derived ones, which cost too much to compute for each run.
struct KeptInputs {
  std::string workload;
  std::vector<std::vector<std::byte>> bytes;  // empty for those that are new in each run
  int served = 0;                             // how often they were given out
};

struct TimingStock {
  std::shared_ptr<Stretches> stretches = std::make_shared<Stretches>();
  std::shared_ptr<InputMemory> inputs = std::make_shared<InputMemory>();
  std::map<std::string, std::vector<LegalError>, std::less<>> legal;  // R of each workload, over many rows
  std::vector<std::vector<std::byte>> outputs;                        // outputs of the last workload
  std::deque<KeptInputs> kept;                                        // the oldest first
};

// The given number of rows of each group of the layout, drawn without repetition, in ascending order.
std::vector<std::int64_t> draw_rows(const RowLayout&, std::int64_t count, std::uint64_t seed);
// As many of each group as the oracle can compute with about `oracle_flops` of the task's arithmetic, within
// these limits.
std::vector<std::int64_t> draw_rows(const RowLayout&, double flops, double oracle_flops, std::int64_t least,
                                    std::int64_t most, std::uint64_t seed);

// R of a workload: from the stock or the library's folder, otherwise computed from these inputs. R depends
// only on the workload and its fills, so one set of inputs serves all runs and all later workers. The library
// must model the permitted roundings.
const std::vector<LegalError>& legal_errors_of(TimingStock&, const TaskReference&, const Task&,
                                               const Workload&, const RowLayout&, const Oracle&,
                                               const InputView&, std::uint64_t seed);

// The derived inputs of a task, and those that they are computed from: the same for up to 16 calls, new
// afterwards. Null if the task has none.
std::shared_ptr<const Inputs> kept_inputs(TimingStock&, const TaskReference&, const Task&, const Workload&,
                                          std::uint64_t seed);

}  // namespace cultivar
