// SPDX-License-Identifier: Apache-2.0
// What prompts show of the record.
#pragma once

#include "engine/breeding/breeding.hpp"
#include "engine/store/record.hpp"
#include "operators/llm/chat.hpp"
#include "operators/prompts/prompt.hpp"
#include "operators/prompts/prompt_context.hpp"

namespace cultivar {

// Both references must outlive it.
class StoredRecordView : public RecordView {
 public:
  StoredRecordView(const Record& record, const Breeding& breeding) : record_(record), breeding_(breeding) {}

  std::string source(IndividualId) const override;
  IndividualFacts life(IndividualId) const override;
  std::optional<Evaluation> evaluation(IndividualId) const override;
  std::optional<Profile> profile(IndividualId) const override;
  std::vector<IndividualId> children(IndividualId) const override;
  std::vector<IndividualId> promoted() const override;
  std::vector<Idea> ideas() const override;
  std::map<std::string, std::map<std::string, double>> contenders() const override;

 private:
  const Record& record_;
  const Breeding& breeding_;
};

// What prompts read. The view must outlive it.
PromptContext context_of(const StoredRecordView&, const Breeding&, const RunFacts&);
// The first question of a brief, from the current state of the record. `left_out` receives what did not fit
// the token limit.
ChatRequest opening_of(const Brief&, const Record&, const Breeding&, const RunFacts&, const PromptKit&,
                       std::vector<std::string>& left_out);

}  // namespace cultivar
