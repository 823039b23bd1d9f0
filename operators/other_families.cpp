// SPDX-License-Identifier: Apache-2.0
#include "operators/other_families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "operators/agent/line_diff.hpp"
#include "population/individual.hpp"

namespace cultivar {

namespace {

// The nearest ancestor by first parents that has another source; 0 if there is none.
IndividualId made_from(const Archive& archive, IndividualId id) {
  const auto line = chain_to_seed(id, [&](IndividualId of) { return archive.parents(of); });
  for (auto ancestor = line.rbegin(); ancestor != line.rend(); ++ancestor)
    if (archive.source_id(*ancestor) != archive.source_id(id)) return *ancestor;
  return 0;
}

// At most about 800 tokens of it, in complete lines.
std::string change_of(const RecordView& record, IndividualId before, IndividualId after) {
  constexpr std::size_t kMostBytes = 2400;
  std::string diff = line_diff(record.source(before), record.source(after));
  if (diff.size() <= kMostBytes) return diff;
  const std::size_t end = diff.rfind('\n', kMostBytes) + 1;  // 0: its first line is longer
  return diff.substr(0, end) +
         fmt::format("[... {} lines omitted]\n",
                     std::count(diff.begin() + static_cast<std::ptrdiff_t>(end), diff.end(), '\n'));
}

void add_elite(PromptWriter& to, IndividualId id) {
  const PromptContext& s = to.context();
  std::string words = fmt::format("{} (family #{})\n", to.told(id), s.archive.family(id));
  if (const IndividualId before = made_from(s.archive, id); before != 0)
    words += fmt::format("\nIts change of #{}:\n\n{}", before,
                         fenced(change_of(s.record_view, before, id), "diff"));
  else if (const auto manifest = parse_manifest(s.record_view.source(id));
           manifest && !manifest->about.empty())
    words += fmt::format("\nIts idea: {}\n", manifest->about);
  constexpr int kLeastUseful = 20;
  to.add("best", std::move(words), kLeastUseful, fmt::format("change of #{}", id));
}

}  // namespace

void add_other_families(PromptWriter& to) {
  constexpr std::size_t kSources = 24;  // that are looked at, fittest first
  const PromptContext& s = to.context();
  const IndividualId subject = to.subject();
  // What the best was made from is older than its idea.
  const auto older = s.incumbent == 0
                         ? std::vector<IndividualId>()
                         : chain_to_seed(s.incumbent, [&](IndividualId of) { return s.archive.parents(of); });
  std::set<IndividualId> families{s.archive.family(subject)};
  if (s.incumbent != 0 && s.archive.source_id(s.incumbent) != s.archive.source_id(subject)) {
    add_elite(to, s.incumbent);
    families.insert(s.archive.family(s.incumbent));
  }
  if (!to.kit().options().families) return;
  std::vector<IndividualId> fittest;
  for (IndividualId id = 1; id <= s.archive.size(); ++id)
    if (s.archive.state(id) == Member::State::measured) fittest.push_back(id);
  std::ranges::stable_sort(fittest, std::greater<>(), [&](IndividualId id) { return s.archive.fitness(id); });
  std::set<std::string> sources;
  for (const IndividualId id : fittest) {
    if (!sources.insert(s.archive.source_id(id)).second) continue;
    if (sources.size() > kSources) break;
    if (std::ranges::find(older, id) != older.end()) continue;
    if (families.contains(s.archive.family(id))) continue;
    return add_elite(to, id);
  }
}

}  // namespace cultivar
