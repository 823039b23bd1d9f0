// SPDX-License-Identifier: Apache-2.0
// How the record says that a resumed search has other settings of the gate.
#pragma once

#include <optional>
#include <string>

#include "evaluators/verdict/gate.hpp"

namespace SQLite {
class Database;
}

namespace cultivar {

// `alpha` is that of the run.
struct GateChange {
  GateOptions before, now;
};

// The body of a decision `session`; without a change it is `what`.
std::string session_body(const std::string& what, const GateChange&);
std::optional<GateChange> gate_change(const std::string& body);  // throws nlohmann::json::exception
// The settings with which the run began, if they were changed later.
std::optional<GateOptions> first_gate(SQLite::Database&);

}  // namespace cultivar
