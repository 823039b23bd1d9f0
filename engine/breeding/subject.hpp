// SPDX-License-Identifier: Apache-2.0
// Which kernel a question is about while kernels that were written from it wait for their evaluation or duel.
#pragma once

#include <set>

#include "population/archive.hpp"
#include "population/strategy.hpp"

namespace cultivar {

// Of `candidates`, the fittest that descends from the source of `id`, has another source and is at least
// kLeftBehind times as fast; 0: none, or `id` is not measured.
IndividualId faster_descendant(IndividualId id, const std::set<IndividualId>& candidates, const Archive&);

// Whether a kernel that was written from the source of `id` is in flight, and none was judged yet.
bool first_offspring_due(IndividualId id, const Archive&);

}  // namespace cultivar
