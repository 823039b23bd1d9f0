// SPDX-License-Identifier: Apache-2.0
// The kinds of decisions in a record. Their names there never change.
#pragma once

#include <optional>
#include <stdexcept>
#include <string_view>

namespace cultivar {

enum class DecisionKind {
  session,    // operators were rebuilt from the record
  ask,        // a question to a language model
  give_up,    // nothing comes of a question
  direct,     // a question was answered with directions for operators
  propose,    // an individual
  put_off,    // its evaluation passed a deadline, or met a fault of the host, and is done once more
  judge,      // an individual was measured or rejected
  migrate,    // between islands
  challenge,  // a comparison with the incumbent begins
  duel,       // the gate's verdict
  confirm,    // the result of a confirmation
  pace,       // the incumbent was measured once more
  promote,    // to incumbent
  expel,      // it failed its confirmation
  intervene,  // the supervisor changes how the search proposes
  outcome     // what that gave, at its end
};
std::string_view name_of(DecisionKind);
std::optional<DecisionKind> decision_named(std::string_view);

// A record has a decision of a kind that this program does not know. The message names the kind and the
// version that wrote the record.
class UnknownDecision : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cultivar
