#include "engine/store/similar_idea.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/store/record_view.hpp"
#include "operators/edits/similarity.hpp"
#include "operators/prompts/prompt_writer.hpp"
#include "operators/registry.hpp"
#include "population/lineage.hpp"

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
  std::map<std::string, std::vector<std::string>> read;  // by source
  const auto lines = [&](IndividualId id) -> const std::vector<std::string>& {
    const auto [place, added] = read.try_emplace(archive.source_id(id));
    if (added) place->second = bare_lines(view.source(id));
    return place->second;
  };
  const auto seed_of = [&](IndividualId id) {
    return chain_to_seed(id, [&](IndividualId of) { return archive.parents(of); }).front();
  };
  const IndividualId parent = proposal.descent.parents.at(0), seed = seed_of(parent);
  const SourceChange change = change_between(lines(parent), bare_lines(proposal.source));
  if (change.empty()) return std::nullopt;
  int compared = 0;
  for (IndividualId id = archive.size(); id >= 1 && compared < kMostCompared; --id) {
    const OperatorRow* const row = find_operator(archive.op(id));
    const std::vector<IndividualId> parents = archive.parents(id);
    if (!row || !row->writes || parents.empty()) continue;
    if (seed_of(parents.front()) != seed) continue;
    ++compared;
    if (!nearly_same(change, change_between(lines(parents.front()), lines(id)))) continue;
    ToolOutcome outcome;
    outcome.tool = kSimilarIdea;
    outcome.text = fmt::format("Your change is nearly the same as one that was tried before:\n\n{}",
                               told(record, breeding, kit, id));
    return outcome;
  }
  return std::nullopt;
}

}  // namespace cultivar
