// Whom to ask about, of all that share a source: tuning has measured many of them.
#pragma once

#include <functional>

#include "population/archive.hpp"

namespace cultivar {

// The fittest measured one that shares the source of `id`; `id` itself when there is none.
IndividualId best_setting(const Archive&, IndividualId id);

// The fittest measured one whose source is wanted; 0: none.
IndividualId fittest_of(const Archive&, const std::function<bool(const std::string& source_id)>& wanted);

}  // namespace cultivar
