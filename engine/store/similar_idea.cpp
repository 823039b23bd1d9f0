#include "engine/store/similar_idea.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/store/record_view.hpp"
#include "operators/edits/similarity.hpp"
#include "operators/prompts/families.hpp"
#include "operators/prompts/prompt_writer.hpp"
#include "operators/registry.hpp"

namespace cultivar {

namespace {

std::string told(const Record& record, const Breeding& breeding, const PromptKit& kit, IndividualId id) {
  const StoredRecordView view(record, breeding);
  const RunFacts facts = record.facts();
  const PromptContext context = context_of(view, breeding, facts);
  std::string words = PromptWriter(context, kit, id).told(id) + "\n";
  const DuelResult* const duel = breeding.archive().duel(id);
  const std::size_t workloads = duel ? std::min(duel->workloads.size(), breeding.workloads().size()) : 0;
  for (std::size_t w = 0; w < workloads; ++w)
    words += fmt::format("  {}: {}\n", breeding.workloads()[w].name, gain_words(duel->workloads[w]));
  return words;
}

}  // namespace

std::optional<ToolOutcome> similar_idea(const Record& record, const Breeding& breeding, const PromptKit& kit,
                                        const Proposal& proposal) {
  constexpr int kMostCompared = 200;
  const Archive& archive = breeding.archive();
  const StoredRecordView view(record, breeding);
  Families families(archive, [&](IndividualId id) { return view.source(id); });
  const IndividualId parent = proposal.descent.parents.at(0);
  const SourceChange change = change_between(families.lines(parent), bare_lines(proposal.source));
  if (change.empty()) return std::nullopt;
  const IndividualId family = families.founder(parent);
  int compared = 0;
  for (IndividualId id = archive.size(); id >= 1 && compared < kMostCompared; --id) {
    const OperatorRow* const row = find_operator(archive.op(id));
    const std::vector<IndividualId> parents = archive.parents(id);
    if (!row || !row->writes || parents.empty()) continue;
    if (families.founder(parents.front()) != family) continue;
    ++compared;
    if (!nearly_same(change, change_between(families.lines(parents.front()), families.lines(id)))) continue;
    ToolOutcome outcome;
    outcome.tool = kSimilarIdea;
    outcome.text = fmt::format("Your change is nearly the same as one that was tried before:\n\n{}",
                               told(record, breeding, kit, id));
    return outcome;
  }
  return std::nullopt;
}

}  // namespace cultivar
