// SPDX-License-Identifier: Apache-2.0
// The buffers of one plan on the judge's side: filled, poisoned and guarded before a run, inspected after it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evaluators/devices/cpu/arena.hpp"
#include "evaluators/devices/device.hpp"

namespace cultivar {

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

}  // namespace cultivar
