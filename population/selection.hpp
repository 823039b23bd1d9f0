// SPDX-License-Identifier: Apache-2.0
// Choosing parents among elites.
#pragma once

#include <vector>

#include "evaluators/system/random.hpp"
#include "population/strategy.hpp"
#include "population/tunings.hpp"

namespace cultivar {

// The fittest of several drawn at random. `elites`: fittest first, not empty.
const Elite& tournament(const std::vector<Elite>& elites, int drawn, RandomStream&);

// How much faster the better of both is than `first`: the mean over the workloads of the logarithm of the
// ratio; 0 if the partner is nowhere faster, or if the workloads of one are unknown.
double complement(const Elite& first, const Elite& partner);

// The parents of a proposal, fittest first: `first`, and partners as wanted, drawn among `elites`
// (Partner::any, Partner::complement) or the other settings of its source. With Partner::complement, of
// several that are drawn the one with the largest complement.
std::vector<IndividualId> with_partners(const Elite& first, const std::vector<Elite>& elites, const Tunings&,
                                        const ParentsWanted&, int tournament, const Archive&, RandomStream&);

}  // namespace cultivar
