// SPDX-License-Identifier: Apache-2.0
#include "engine/search/second_tries.hpp"

#include <fmt/format.h>

namespace cultivar {

SecondTries::SecondTries(Recorder& recorder) : recorder_(recorder), granted_(recorder.record().put_off()) {}

bool SecondTries::grant(IndividualId id, Examination of, const Evaluation& evaluation) {
  if (!evaluation.late || !granted_.emplace(id, of).second) return false;
  recorder_.step([&](Step& step) {
    step.put_off(id, of, evaluation);
    recorder_.tell(step, "trouble", id,
                   fmt::format("{}: {}; it is {} again, because the machine may have been busy",
                               name_of(evaluation.stage), evaluation.reason,
                               of == Examination::search ? "evaluated" : "confirmed"));
  });
  return true;
}

}  // namespace cultivar
