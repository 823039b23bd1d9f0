// SPDX-License-Identifier: Apache-2.0
// One OpenCL variant on one workload: buffers shared with a cell, filled and inspected here, and timed by the
// device's events under the eyes of this process's clock.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "evaluators/devices/cpu/arena.hpp"
#include "evaluators/devices/cpu/cell_process.hpp"
#include "evaluators/devices/cpu/session.hpp"
#include "evaluators/devices/device.hpp"
#include "evaluators/devices/opencl/code/cell_layout.hpp"
#include "evaluators/devices/opencl/code/opencl_program.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// The worker's side of an OpenCL cell: starts it, sends it requests, times them from outside, and says how it
// ended.
class OpenclCell {  // not thread-safe
 public:
  using Explain = std::function<std::string(std::uint64_t address)>;

  // Returns when the kernels are loaded. `folder`: what the cell may write to, where its driver keeps what it
  // compiles; it outlives the cell. `binary` lies below it or is readable to the cell.
  static tl::expected<OpenclCell, Fault> start(const OpenclProgram&, const nlohmann::json& job, const Arena&,
                                               const std::filesystem::path& folder,
                                               const std::filesystem::path& binary, std::size_t memory_bytes,
                                               Clock::time_point deadline);
  void set_explain(Explain explain) { explain_ = std::move(explain); }

  struct Answer {
    opencl::Reply reply;
    double wall_s = 0.0;  // from before the request until its reply, by this process's clock
  };
  tl::expected<Answer, Fault> ask(opencl::Request, Clock::time_point deadline);

 private:
  OpenclCell(ChildProcess, UniqueDescriptor socket);
  tl::expected<opencl::Reply, Fault> hear(Clock::time_point deadline);
  Fault timed_out();
  Fault died();

  ChildProcess process_;
  UniqueDescriptor socket_;
  Explain explain_;
  bool ready_ = false;
  std::uint32_t requests_ = 0;
  std::uint64_t memory_kills_before_ = out_of_memory_kills();
  opencl::Reply last_words_;  // of kind signal, if it sent one
};

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

// The launches of a plan in the form in which cultivar-opencl reads them.

nlohmann::json launches_json(const Plan&);

}  // namespace cultivar
