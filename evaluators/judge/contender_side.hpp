// SPDX-License-Identifier: Apache-2.0
// A contender's library as one side of a measurement. It runs in the worker's process, so the engine is
// informed before and after each call: if the worker does not come back, the responsible contender is known.
#pragma once

#include <stdexcept>
#include <string>

#include "evaluators/judge/cascade.hpp"

namespace cultivar {

// A contender broke the device and with it every session of this process: the worker must be replaced.
class ContenderBrokeDevice : public std::runtime_error {
 public:
  ContenderBrokeDevice(std::string contender, const std::string& why)
      : std::runtime_error(why), contender_(std::move(contender)) {}
  const std::string& contender() const { return contender_; }

 private:
  std::string contender_;
};

// Opens a session for either kind: a variant (see open_session) or a contender's library. Throws
// ContenderBrokeDevice, as do its runs. The site and the workload must outlive the session.
tl::expected<std::unique_ptr<Session>, Evaluation> open_side(const CascadeSite&, Stage, const Compiled&,
                                                             const Workload&);

// Checks a library's output on a workload as a variant's is checked: every element must be written, and as
// many secret blocks of rows must be correct as kContenderFlops of oracle arithmetic allow. nullopt: passed.
// Stage lint: it does not load, on any workload. Timed runs are checked in addition.
inline constexpr double kContenderFlops = 2e9;
std::optional<Evaluation> check_contender(const CascadeSite&, Stage, const Compiled&, const Workload&,
                                          std::uint64_t seed);

}  // namespace cultivar
