// A contender's library as one side of a measurement. It runs in the worker's process, so the engine is told
// before each call of it, and after: when the worker does not come back, it is known whose fault that is.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "evaluators/check/cascade.hpp"

namespace cultivar {

// It broke the device, and with it every session of this process: the worker must be replaced.
class ContenderBrokeDevice : public std::runtime_error {
 public:
  ContenderBrokeDevice(std::string contender, const std::string& why)
      : std::runtime_error(why), contender_(std::move(contender)) {}
  const std::string& contender() const { return contender_; }

 private:
  std::string contender_;
};

// What the engine hears while a contender is called: "contender NAME: ...".
std::string contender_progress(const std::string& name, const std::string& doing);
bool contender_in_progress(const std::string& progress);
// Which of these is being called; empty: none.
std::string contender_in_progress(const std::string& progress, const std::vector<std::string>& names);

// How the diagnostics of an evaluation begin to tell of a library that does not load.
std::string unusable_contender(const std::string& name);

// A session of either: a variant's (see open_session), or of a contender's library. Throws
// ContenderBrokeDevice, as its runs do. The site and the workload outlive the session.
tl::expected<std::unique_ptr<Session>, Evaluation> open_side(const CascadeSite&, Stage, const Compiled&,
                                                             const Workload&);

// A library's output on a workload, compared as a variant's is: every element must be written, and as many
// secret blocks of rows right as kContenderFlops of the oracle allow. nullopt: passed. Stage lint: it does
// not load, on any workload. Timed runs are checked besides.
inline constexpr double kContenderFlops = 2e9;
std::optional<Evaluation> check_contender(const CascadeSite&, Stage, const Compiled&, const Workload&,
                                          std::uint64_t seed);

}  // namespace cultivar
