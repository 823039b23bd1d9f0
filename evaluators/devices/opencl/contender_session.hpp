// SPDX-License-Identifier: Apache-2.0
// A contender's library on one workload, called in this process with the tensors in its memory: checked as a
// variant is, but trusted. Only where the OpenCL device is the processor.
#pragma once

#include <memory>
#include <vector>

#include "evaluators/contenders/library.hpp"
#include "evaluators/devices/cpu/judged_buffers.hpp"
#include "evaluators/devices/device.hpp"

namespace cultivar {

class OpenclContenderSession : public Session {
 public:
  static tl::expected<std::unique_ptr<OpenclContenderSession>, Fault> open(const ContenderFile&,
                                                                           const ContenderSettings&,
                                                                           const Task&, const Workload&,
                                                                           int threads);
  // Timed by the clock around the call, which queues the work and waits for it, with cold buffers.
  tl::expected<Sample, Fault> run(const RunInputs&, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions&) override;
  std::size_t unwritten_elements() const override { return buffers_.unwritten_elements(); }

 private:
  explicit OpenclContenderSession(JudgedBuffers buffers) : buffers_(std::move(buffers)) {}
  std::vector<void*> addresses() const;

  JudgedBuffers buffers_;
  std::unique_ptr<PreparedContender> contender_;
  std::optional<Fault> dead_;
};

}  // namespace cultivar
