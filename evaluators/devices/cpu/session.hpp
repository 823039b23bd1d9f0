// SPDX-License-Identifier: Apache-2.0
// One cpu variant on one workload: an arena, a cell, and a judge that trusts neither.
#pragma once

#include <cstdint>
#include <memory>

#include "evaluators/devices/cpu/cell_process.hpp"
#include "evaluators/devices/cpu/judged_buffers.hpp"
#include "evaluators/devices/device.hpp"

namespace cultivar {

// The shortest run that can be timed, in handshakes.
inline constexpr double shortest_in_handshakes = 50.0;

class CpuSession : public Session {
 public:
  // `cores` lists the machine's cores that may be used; thread i of the plan is pinned to the i-th of them.
  static tl::expected<std::unique_ptr<CpuSession>, Fault> open(const CellOptions&, const Sandbox&,
                                                               const Plan&, const std::vector<int>& cores,
                                                               double deadline_s,
                                                               std::span<const Repetition> repetitions = {});

  // Runs in a new copy of the cell, so that nothing but the inputs and outputs connects two runs. Flushes
  // every cache line of the buffers first, so that each run starts under the same conditions (data cold in
  // memory, code and the upper part of the stacks present, other private memory not yet there), and so that a
  // timed run cannot be told from a checked one.
  tl::expected<Sample, Fault> run(const RunInputs&, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions&) override;
  std::size_t unwritten_elements() const override { return buffers_.unwritten_elements(); }

  double handshake_s() const { return handshake_s_; }

 private:
  CpuSession(JudgedBuffers, CellProcess);
  tl::expected<void, Fault> measure_handshake(Clock::time_point deadline);

  JudgedBuffers buffers_;
  CellProcess cell_;
  double handshake_s_ = 0.0;
  bool fresh_ = false;  // the cell has a copy that has loaded the kernels and has not run them
  std::optional<Fault> dead_;
};

}  // namespace cultivar
