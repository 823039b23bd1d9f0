// SPDX-License-Identifier: Apache-2.0
// One OpenCL variant on one workload: buffers shared with a cell, filled and inspected here, and timed by the
// device's events under the eyes of this process's clock.
#pragma once

#include <memory>

#include "evaluators/devices/cpu/judged_buffers.hpp"
#include "evaluators/devices/device.hpp"
#include "evaluators/devices/opencl/cell_process.hpp"

namespace cultivar {

struct OpenclSessionOptions {
  const OpenclProgram& program;
  const std::filesystem::path& folder;  // for what the driver compiles for this binary; outlives the session
  std::filesystem::path binary;
  bool copies = false;
  std::size_t memory_bytes = 0;  // of addresses of a cell, not counting its buffers; 0: not bounded
  std::size_t counters = 0;  // of a check build: bytes of the last buffer, which no kernel has as an argument
};

class OpenclSession : public Session {
 public:
  // Runs the plan once on zeros, so that the driver has compiled it for the sizes of its groups; then the
  // cell is locked.
  static tl::expected<std::unique_ptr<OpenclSession>, Fault> open(const OpenclSessionOptions&, const Plan&,
                                                                  double deadline_s);
  // The time is that of the device's profiling events. Where kernels run on the processor they could forge
  // it, so it counts only as far as it agrees with the time from the request to the reply; otherwise that
  // counts.
  tl::expected<Sample, Fault> run(const RunInputs&, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions&) override;
  std::size_t unwritten_elements() const override { return buffers_.unwritten_elements(); }

 private:
  OpenclSession(JudgedBuffers buffers, OpenclCell cell, std::size_t launches, bool apart);
  tl::expected<void, Fault> place(Clock::time_point deadline);
  tl::expected<void, Fault> warm_up(Clock::time_point deadline);

  JudgedBuffers buffers_;
  OpenclCell cell_;
  double handshake_s_ = 0.0;
  std::size_t launches_ = 1;
  bool apart_ = false;  // kernels cannot reach the process that reads the events
  std::optional<Fault> dead_;
};

}  // namespace cultivar
