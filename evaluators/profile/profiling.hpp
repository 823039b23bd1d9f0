// Stage 10 in a device worker: one variant on one workload, timed, sampled or counted. Every run is checked
// like any other; what could not be found out is said in the profile, and is no fault of the variant.
#pragma once

#include "evaluators/check/cascade.hpp"
#include "evaluators/worker/requests.hpp"

namespace cultivar {

// What part `request.part` finds out; the rest of the profile is what is known without running anything.
// A rejection when the variant does not claim the workload, or fails where nothing but timing is done to it.
ProfilePartial run_profile(const CascadeSite&, const ProfileRequest&);

// How often to sample program counters of a run that takes so long: 2^n cycles, for some thousand samples of
// each scheduler.
int sampling_period(double seconds);

// Samples by source line, most that do not merely issue first; at most `most` lines.
std::vector<LineStalls> stalls_by_line(const PcSamples&, std::string_view function, const LineTable*,
                                       std::string_view source, std::size_t most = 10);

}  // namespace cultivar
