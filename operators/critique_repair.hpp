// SPDX-License-Identifier: Apache-2.0
// For a failed or slow variant: first a critique that cites evidence, then a repair, in several rounds. Each
// repair is evaluated.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "operators/asking_operator.hpp"

namespace cultivar {

class CritiqueRepair : public AskingOperator {
 public:
  explicit CritiqueRepair(int rounds) : rounds_(rounds) {}

  std::string name() const override { return "critique_repair"; }
  int parents_wanted() const override { return 1; }
  // The newest failed source with rounds left; if there is none, the parent that selection offers, as a slow
  // variant, once for each source.
  std::optional<Brief> plan(const OperatorContext&, RandomStream&) override;
  void asked(const Brief&, const Archive&) override;
  void write(const Brief&, PromptWriter&) const override;
  Move next(const Conversation&) const override;
  void observe(IndividualId, const Archive&) override;

 private:
  int rounds_;
  std::vector<IndividualId> failures_;  // failures not asked about yet, oldest first
  std::set<std::string> slow_;          // sources already asked about as slow
};

// Checks that the critique quotes evidence, and that every quotation occurs in the request between <evidence>
// and </evidence>. Empty if so; otherwise a message for the model.
std::string unfounded(const std::string& critique, const std::string& request);

}  // namespace cultivar
