// SPDX-License-Identifier: Apache-2.0
// What the tools that compile and run kernels share: the kernel and workloads of a call, and its turn on the
// device. Internal to the tools.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "operators/agent/tool_session.hpp"

namespace cultivar {

// A variant to compile and run.
struct ToolJob {
  Subject subject;
  std::vector<Workload> workloads;
};

template <class T>
tl::unexpected<EditRefusal> passed_on(const tl::expected<T, EditRefusal>& trouble) {
  return tl::make_unexpected(trouble.error());
}

// The refusal of a call that was canceled or timed out.
std::optional<EditRefusal> ended(const Watch&);

// The run's workloads that are requested (none: all) and that the variant claims.
tl::expected<std::vector<Workload>, EditRefusal> workloads_for(const Bench&, const Variant&,
                                                               const std::vector<std::string>& names);
tl::expected<ToolJob, EditRefusal> job_of(ToolSession&, const nlohmann::json& arguments);
tl::expected<ToolJob, EditRefusal> job_for(ToolSession&, Subject, const nlohmann::json& arguments);

// Both are valid answers: the binaries, or the reason for a rejection.
tl::expected<Compiled, Evaluation> build(ToolSession&, const ToolJob&, const Watch&);
// The device for a call that only compiles, which must not disturb timing on the same cores. nullopt: not
// needed.
tl::expected<std::optional<DeviceTurns::Turn>, EditRefusal> quiet_turn(ToolSession&, Watch&);
// Takes the device before compiling if a compiler would disturb another call's timing.
struct BuiltJob {
  std::optional<DeviceTurns::Turn> turn;
  tl::expected<Compiled, Evaluation> compiled;
};
tl::expected<BuiltJob, EditRefusal> build_for_device(ToolSession&, const ToolJob&, Watch&);

std::string named(const Subject&);  // "d1 (softmax, TILE=4)"
// The text of a rejection, which is also kept with the draft.
std::string rejected(ToolSession&, const Subject&, const Evaluation& why);
std::string spent(const ToolSession&, const DeviceTurns::Turn&);  // the device time of a call, and the caveat
// With the time limit of each workload cut to the remaining device time.
Sampling within_budget(const ToolSession&, Sampling, std::size_t workloads);
std::function<void(const std::string&)> steps_of(const ToolJob&, const Watch&);

inline constexpr std::size_t kCompilerBytes = 12'000;  // of a compiler's output

}  // namespace cultivar
