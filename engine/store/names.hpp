// Names that people and models type for an individual.
#pragma once

#include <string>

#include "engine/store/record.hpp"

namespace cultivar {

// "best", "seed", a number, or the beginning of a variant id. InputError otherwise.
IndividualId find_individual(const Record&, const std::string& text);

}  // namespace cultivar
