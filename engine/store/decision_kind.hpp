// SPDX-License-Identifier: Apache-2.0
// The decisions in a record: their kinds, and the bodies of those that more than one reader understands.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "evaluators/verdict/gate.hpp"
#include "population/individual.hpp"

namespace SQLite {
class Database;
}

namespace cultivar {

// Their names in a record never change.
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

// The body of a decision `duel`: the verdict, whether the duel may go on, and the ratio of the speeds.
struct DuelBody {
  Verdict verdict = Verdict::undecided;
  bool may_go_on = false;
  std::optional<DuelResult> result = {};  // without the incumbent
};

std::string to_body(const DuelBody&);
// Earlier versions wrote only the verdict, or "open" for an undecided duel that may go on; their fitness is
// that of the measurement. Throws std::exception.
DuelBody duel_body(const std::string&);

// Other settings of the gate, with which a search was resumed. `alpha` is that of the run.
struct GateChange {
  GateOptions before, now;
};

// The body of a decision `session`; without a change it is `what`.
std::string session_body(const std::string& what, const GateChange&);
std::optional<GateChange> gate_change(const std::string& body);  // throws nlohmann::json::exception
// The settings with which the run began, if they were changed later.
std::optional<GateOptions> first_gate(SQLite::Database&);

}  // namespace cultivar
