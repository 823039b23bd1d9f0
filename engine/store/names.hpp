// SPDX-License-Identifier: Apache-2.0
// Resolves the names that people and models use for an individual.
#pragma once

#include <string>

#include "engine/store/record.hpp"

namespace cultivar {

// What shows the names to models.
inline constexpr const char* kToolOfNames = "the tool list_lineage";

// "best", "seed", a number, or a prefix of a variant id. Throws InputError for any other text;
// `lister`: what shows the names.
IndividualId find_individual(const Record&, const std::string& text,
                             const std::string& lister = "`cultivar lineage RUN`");

}  // namespace cultivar
