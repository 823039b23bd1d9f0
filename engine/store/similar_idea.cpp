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

IndividualId similar_change(const Archive& archive, const TextOf& text_of, const std::string& source,
                            IndividualId parent) {
  constexpr int kMostCompared = 200;
  std::map<std::string, std::vector<std::string>> read;  // by source
  const auto lines = [&](IndividualId id) -> const std::vector<std::string>& {
    const auto [place, added] = read.try_emplace(archive.source_id(id));
    if (added) place->second = bare_lines(text_of(archive.source_id(id)));
    return place->second;
  };
  const auto seed_of = [&](IndividualId id) {
    return chain_to_seed(id, [&](IndividualId of) { return archive.parents(of); }).front();
  };
  const IndividualId seed = seed_of(parent);
  const SourceChange change = change_between(lines(parent), bare_lines(source));
  if (change.empty()) return 0;
  int compared = 0;
  for (IndividualId id = archive.size(); id >= 1 && compared < kMostCompared; --id) {
    const OperatorRow* const row = find_operator(archive.op(id));
    const bool written = archive.origin(id) == Origin::submission || (row && row->writes);
    const std::vector<IndividualId> parents = archive.parents(id);
    if (!written || parents.empty() || seed_of(parents.front()) != seed) continue;
    ++compared;
    if (nearly_same(change, change_between(lines(parents.front()), lines(id)))) return id;
  }
  return 0;
}

std::optional<ToolOutcome> similar_idea(const Record& record, const Breeding& breeding, const PromptKit& kit,
                                        const Proposal& proposal) {
  const auto text_of = [&](const std::string& source_id) { return record.source_named(source_id); };
  const IndividualId id =
      similar_change(breeding.archive(), text_of, proposal.source, proposal.descent.parents.at(0));
  if (id == 0) return std::nullopt;
  ToolOutcome outcome;
  outcome.tool = kSimilarIdea;
  outcome.text = fmt::format("Your change is nearly the same as one that was tried before:\n\n{}",
                             told(record, breeding, kit, id));
  return outcome;
}

}  // namespace cultivar
