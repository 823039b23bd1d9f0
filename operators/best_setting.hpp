// SPDX-License-Identifier: Apache-2.0
// Selects the individual to ask a model about, among all that share a source.
#pragma once

#include <functional>

#include "population/archive.hpp"

namespace cultivar {

// The fittest measured individual with the source of `id`; `id` itself if there is none.
IndividualId best_setting(const Archive&, IndividualId id);

// The fittest measured individual whose source satisfies the predicate; 0 if there is none.
IndividualId fittest_of(const Archive&, const std::function<bool(const std::string& source_id)>& wanted);

}  // namespace cultivar
