// SPDX-License-Identifier: Apache-2.0
// What C++ and the languages made of it share: comments, types, numbers, keywords, and the parts of a new
// seed.
#pragma once

#include "evaluators/target/language.hpp"

namespace cultivar {

// A row with comments, the types of the standard's names (floating types of 16 and 8 bits as their bits),
// numbers and keywords.
LanguageTraits c_family();

}  // namespace cultivar
