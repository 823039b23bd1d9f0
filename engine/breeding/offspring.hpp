// SPDX-License-Identifier: Apache-2.0
// What breeding decides next: a proposal, a question to a language model, or an intervention of the
// supervisor.
#pragma once

#include <set>
#include <string>
#include <variant>

#include "engine/breeding/parsed_sources.hpp"
#include "operators/asking_operator.hpp"
#include "operators/supervisor/supervisor.hpp"

namespace cultivar {

// A proposal whose variant is new in this run.
struct NewProposal {
  Proposal proposal;
  ParsedVariant variant;  // an error: record the proposal as rejected by lint
  std::string stream;     // the random stream from which it was drawn
};

// A question to a language model that may become a proposal, or directions for others.
struct Asking {
  Brief brief;
  std::string stream;
};
using Offspring = std::variant<NewProposal, Asking>;
// What the supervisor decides: to change how the search proposes, or that such a change has ended.
using Supervision = std::variant<Intervention, InterventionResult>;

// What breed() may return. This depends on calls in flight and on failures, so each decision is recorded with
// its limits.
struct AskingLimits {
  bool proposals = true;                        // may a kernel be proposed without a question?
  bool questions = false;                       // may another question be asked?
  std::set<std::string> closed = {};            // models that are no longer asked
  std::set<std::string> closed_operators = {};  // operators that no longer ask

  friend bool operator==(const AskingLimits&, const AskingLimits&) = default;
};

}  // namespace cultivar
