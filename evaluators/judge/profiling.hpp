// SPDX-License-Identifier: Apache-2.0
// Stage 10 in a device worker: one variant on one workload, timed, sampled or counted. Every run is checked
// like any other. What could not be determined is listed in the profile and is not the variant's fault.
#pragma once

#include "evaluators/judge/cascade.hpp"
#include "evaluators/judge/requests.hpp"

namespace cultivar {

// Determines the facts of part `request.part`; the rest of the profile is what is known without running
// anything. Returns a rejection if the variant does not claim the workload, or fails in the part that only
// times it.
ProfilePartial run_profile(const CascadeSite&, const ProfileRequest&);

// The sampling period of program counters for a run of this duration: 2^n cycles, for some thousand samples
// per scheduler.
int sampling_period(double seconds);

// Samples by source line, the lines with the most stalled samples first; at most `most` lines.
// `main`: the name of the source's main file.
std::vector<LineStalls> stalls_by_line(const PcSamples&, std::string_view function, std::string_view source,
                                       const std::string& main, std::size_t most = 10);

}  // namespace cultivar
