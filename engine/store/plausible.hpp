// SPDX-License-Identifier: Apache-2.0
// Checks of what a record says where it is read: its file may have been changed by another program. Each
// throws InconsistentRecord.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "engine/store/record.hpp"

namespace cultivar {

class InconsistentRecord : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

// A finite number; `what` names it.
double number_in(const std::string& text, std::string_view what);
// The individual, if it is one of `count`.
IndividualId existing(IndividualId, std::int64_t count);
// The task's name and its files' names lead to no other folder.
void require_inside(const RunFacts&);
// A state that a search can write.
void require_plausible(IndividualId, IndividualState);
// The state, and a finite fitness; names of a bounded length.
void require_plausible(const IndividualRow&);
void require_plausible(const DecisionRow&);

}  // namespace cultivar
