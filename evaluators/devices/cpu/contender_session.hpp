// SPDX-License-Identifier: Apache-2.0
// A contender's library on one workload, called in this process: checked as a variant is, but trusted.
#pragma once

#include <filesystem>
#include <memory>

#include "evaluators/contenders/library.hpp"
#include "evaluators/devices/cpu/judged_buffers.hpp"

namespace cultivar {

class CpuContenderSession : public Session {
 public:
  static tl::expected<std::unique_ptr<CpuContenderSession>, Fault> open(const ContenderFile&,
                                                                        const ContenderSettings&, const Task&,
                                                                        const Workload&, int threads);
  // Timed by the clock around the call, with cold buffers, as for a variant.
  tl::expected<Sample, Fault> run(const RunInputs&, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions&) override;
  std::size_t unwritten_elements() const override { return buffers_.unwritten_elements(); }

 private:
  explicit CpuContenderSession(JudgedBuffers buffers) : buffers_(std::move(buffers)) {}
  std::vector<void*> addresses() const;

  JudgedBuffers buffers_;
  std::unique_ptr<PreparedContender> contender_;
  std::optional<Fault> dead_;
};

}  // namespace cultivar
