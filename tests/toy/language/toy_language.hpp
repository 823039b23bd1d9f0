// SPDX-License-Identifier: Apache-2.0
// A language of seven words, in comments of its own: (* ... *), and ; to the end of a line. It shows what a
// new language needs: this folder, and one line in a table.
#pragma once

#include "evaluators/target/language.hpp"

namespace cultivar::toy {

Language toy_language();

}  // namespace cultivar::toy
