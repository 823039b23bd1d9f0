// SPDX-License-Identifier: Apache-2.0
// One cpu variant on one workload (an arena, a cell, and a judge that trusts neither), or a contender's
// library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "evaluators/contenders/library.hpp"
#include "evaluators/devices/cpu/arena.hpp"
#include "evaluators/devices/cpu/cell_process.hpp"
#include "evaluators/devices/device.hpp"

namespace cultivar {

// The buffers of one plan on the judge's side: filled, poisoned and guarded before a run, inspected after it.
class JudgedBuffers {  // not thread-safe
 public:
  // Addresses and canaries are secret.
  static Expected<JudgedBuffers> create(const Plan&, std::span<const Repetition> repetitions = {});

  const Arena& arena() const { return arena_; }
  std::size_t size() const { return plan_.buffers.size(); }
  // Moves every buffer, copies the inputs in, poisons all other buffers, writes the canaries.
  void prepare(const RunInputs&, const RunOptions&);
  // Copies the outputs out. Returns a Fault if an input changed or something outside a buffer was written.
  std::optional<Fault> inspect(const RunInputs&, std::span<std::vector<std::byte>> outputs,
                               const RunOptions&);
  std::size_t unwritten_elements() const { return unwritten_; }  // in the outputs last inspected

 private:
  JudgedBuffers(const Plan& plan, Arena arena) : plan_(plan), arena_(std::move(arena)) {}
  Plan plan_;
  Arena arena_;
  std::uint64_t runs_ = 0;
  std::size_t unwritten_ = 0;
};

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

// A contender's library on one workload, called in this process with the tensors in its memory: checked as a
// variant is, but trusted. For devices that are the processor: cpu, and opencl on one.
class HostContenderSession : public Session {
 public:
  static tl::expected<std::unique_ptr<HostContenderSession>, Fault> open(const ContenderFile&,
                                                                         const ContenderSettings&,
                                                                         const Task&, const Workload&,
                                                                         int threads, Target);
  // Timed by the clock around the call, which ends when its work is done, with cold buffers.
  tl::expected<Sample, Fault> run(const RunInputs&, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions&) override;
  std::size_t unwritten_elements() const override { return buffers_.unwritten_elements(); }

 private:
  explicit HostContenderSession(JudgedBuffers buffers) : buffers_(std::move(buffers)) {}
  std::vector<void*> addresses() const;

  JudgedBuffers buffers_;
  std::unique_ptr<PreparedContender> contender_;
  std::optional<Fault> dead_;
};

}  // namespace cultivar
