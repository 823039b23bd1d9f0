// SPDX-License-Identifier: Apache-2.0
#include "engine/store/similar_idea.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/store/record_kernels.hpp"
#include "engine/store/record_view.hpp"
#include "evaluators/system/plain_text.hpp"
#include "operators/edits/similarity.hpp"
#include "operators/prompts/prompt_writer.hpp"
#include "operators/registry.hpp"
#include "population/individual.hpp"

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
                            IndividualId parent, std::span<const IndividualId> partners) {
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
  const std::vector<std::string> own = bare_lines(source);
  const IndividualId seed = parent == 0 ? 0 : seed_of(parent);
  const SourceChange change = parent == 0 ? SourceChange{} : change_between(lines(parent), own);
  if (parent != 0 && change.empty()) return 0;
  int compared = 0;
  for (IndividualId id = archive.size(); id >= 1 && compared < kMostCompared; --id) {
    const OperatorRow* const row = find_operator(archive.op(id));
    const bool written = archive.origin(id) == Origin::submission || (row && row->writes);
    const std::vector<IndividualId> parents = archive.parents(id);
    if (parents.empty()) {
      if (parent == 0 && change_between(lines(id), own).empty()) return id;
      continue;
    }
    if (std::ranges::find(partners, id) != partners.end()) continue;
    if (!written || (parent != 0 && seed_of(parents.front()) != seed)) continue;
    ++compared;
    const std::vector<std::string>& before = lines(parents.front());
    const SourceChange theirs = change_between(before, lines(id));
    if (nearly_same(parent == 0 ? change_between(before, own) : change, theirs)) return id;
  }
  return 0;
}

std::string similar_earlier(const Record& record, const std::string& source, IndividualId parent) {
  if (parent != 0 && record.source(parent) == source) return {};
  Archive archive;
  record.each_individual([&](const IndividualRow& row) { archive.add(row.individual); });
  const auto text_of = [&](const std::string& source_id) { return record.source_named(source_id); };
  const IndividualId id = similar_change(archive, text_of, source, parent);
  if (id == 0) return {};
  const auto known = kernel_in(record, std::to_string(id));
  if (!known) return {};
  constexpr std::size_t kMost = 200;  // bytes of a note or a reason
  const KernelRow& row = known->row;
  std::string words = fmt::format("This {} is nearly the same as one that was tried before: {}, {}",
                                  parent == 0 ? "kernel" : "change", row.id, row.op);
  if (!row.parents.empty()) words += fmt::format(" of {}", fmt::join(row.parents, ", "));
  if (!row.note.empty()) words += fmt::format(" ({})", one_line_of(row.note, kMost));
  if (row.state == "measured")
    words += fmt::format(" -> {:.4g} {}, {}", row.fitness, record.facts().unit_of_fitness,
                         row.duel.empty() ? "one measurement" : row.duel);
  else if (row.state == "rejected")
    words += fmt::format(" -> rejected at {}: {}", row.stage, one_line_of(row.reason, kMost));
  else
    words += " -> not evaluated yet";
  for (const std::string& remark : known->remarks) words += "\n- " + remark;
  return words + "\n";
}

std::optional<ToolOutcome> similar_idea(const Record& record, const Breeding& breeding, const PromptKit& kit,
                                        const Proposal& proposal) {
  const auto text_of = [&](const std::string& source_id) { return record.source_named(source_id); };
  const std::vector<IndividualId>& parents = proposal.descent.parents;
  const IndividualId id = similar_change(breeding.archive(), text_of, proposal.source, parents.at(0),
                                         std::span(parents).subspan(1));
  if (id == 0) return std::nullopt;
  ToolOutcome outcome;
  outcome.tool = kSimilarIdea;
  outcome.text = fmt::format("Your change is nearly the same as one that was tried before:\n\n{}",
                             told(record, breeding, kit, id));
  return outcome;
}

}  // namespace cultivar
