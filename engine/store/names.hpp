// Resolves the names that people and models use for an individual.
#pragma once

#include <string>

#include "engine/store/record.hpp"

namespace cultivar {

// "best", "seed", a number, or a prefix of a variant id. Throws InputError for any other text.
IndividualId find_individual(const Record&, const std::string& text);

}  // namespace cultivar
