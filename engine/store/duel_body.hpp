// SPDX-License-Identifier: Apache-2.0
// The body of a decision `duel`: the verdict, whether the duel may go on, and the ratio of the speeds.
#pragma once

#include <optional>
#include <string>

#include "population/duel_result.hpp"

namespace cultivar {

struct DuelBody {
  Verdict verdict = Verdict::undecided;
  bool may_go_on = false;
  std::optional<DuelResult> result = {};  // without the incumbent
};

std::string to_body(const DuelBody&);
// Earlier versions wrote only the verdict, or "open" for an undecided duel that may go on; their fitness is
// that of the measurement. Throws std::exception.
DuelBody duel_body(const std::string&);

}  // namespace cultivar
