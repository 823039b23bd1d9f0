// The record, as prompts ask it.
#pragma once

#include "engine/breeding.hpp"
#include "engine/store/record.hpp"
#include "operators/prompts/opening.hpp"

namespace cultivar {

// Both references outlive it.
class RecordedChronicle : public Chronicle {
 public:
  RecordedChronicle(const Record& record, const Breeding& breeding) : record_(record), breeding_(breeding) {}

  std::string source(IndividualId) const override;
  Life life(IndividualId) const override;
  std::optional<Evaluation> evaluation(IndividualId) const override;
  std::optional<Profile> profile(IndividualId) const override;
  std::vector<IndividualId> children(IndividualId) const override;
  std::map<std::string, std::map<std::string, double>> contenders() const override;

 private:
  const Record& record_;
  const Breeding& breeding_;
};

// The first question of a brief, as the record stands. `left_out` gets what the budget had no room for.
ChatRequest opening_of(const Brief&, const Record&, const Breeding&, const RunFacts&, const PromptKit&,
                       std::vector<std::string>& left_out);

}  // namespace cultivar
