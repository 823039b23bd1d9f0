// SPDX-License-Identifier: Apache-2.0
// The worker's side of an OpenCL cell: starts it, sends it requests, times them from outside, and says how it
// ended.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "evaluators/devices/cpu/arena.hpp"
#include "evaluators/devices/cpu/cell_process.hpp"
#include "evaluators/devices/device.hpp"
#include "evaluators/devices/opencl/code/cell_layout.hpp"
#include "evaluators/devices/opencl/code/opencl_program.hpp"

namespace cultivar {

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

}  // namespace cultivar
