// SPDX-License-Identifier: Apache-2.0
// A contender's library on one workload, called in this process with the tensors in its memory: checked as a
// variant is, but trusted. For devices that are the processor: cpu, and opencl on one.
#pragma once

#include <filesystem>
#include <memory>

#include "evaluators/contenders/library.hpp"
#include "evaluators/devices/cpu/judged_buffers.hpp"

namespace cultivar {

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
