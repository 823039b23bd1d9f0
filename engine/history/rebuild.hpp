// SPDX-License-Identifier: Apache-2.0
// Applies a record, decision by decision, to a fresh Breeding.
#pragma once

#include <string>
#include <vector>

#include "engine/breeding/breeding.hpp"
#include "engine/store/askings.hpp"
#include "engine/store/record.hpp"

namespace cultivar {

// Called just before each decision is applied to the Breeding. The defaults do nothing.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void session() {}
  virtual void asking(const AskedQuestion&, const std::string& /*stream*/) {}
  virtual void giving_up(std::int64_t /*asking*/) {}
  virtual void directing(std::int64_t /*asking*/, const Directions&) {}
  virtual void proposing(const Individual&, const std::string& /*stream*/, const ProposalBody&) {}
  virtual void judging(IndividualId, IndividualId /*duplicate_of*/) {}
  virtual void migrated(const std::vector<Migration>& /*made*/, const std::vector<Migration>& /*recorded*/) {}
  virtual void challenging(IndividualId) {}
  virtual void compared(IndividualId, Verdict) {}
  virtual void promoting(IndividualId) {}
  virtual void supervising(const Supervision&) {}
};

// Throws SQLite::Exception when the record is damaged, UnknownDecision when another version wrote it, and
// std::exception when it contradicts itself.
void apply_decisions(const Record&, Breeding&, Listener&);

}  // namespace cultivar
