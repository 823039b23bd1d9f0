// SPDX-License-Identifier: Apache-2.0
#include "operators/crossover_knobs.hpp"

#include <fmt/format.h>
#include <algorithm>

namespace cultivar {

const CrossoverKnobs::Stock& CrossoverKnobs::stock_of(const std::string& source_id,
                                                      const OperatorContext& s) {
  const auto [place, first] = stock_.try_emplace(source_id);
  Stock& stock = place->second;
  if (first) {
    stock.source = s.source_of(source_id);
    if (const auto variant = make_variant(stock.source, s.task);
        variant && !variant->manifest.tunables.empty())
      stock.feasible = std::make_unique<Feasibility>(*variant, s.task, s.workloads, s.facts);
  }
  return stock;
}

std::optional<Proposal> CrossoverKnobs::propose(const OperatorContext& s, RandomStream& stream) {
  if (s.parents.size() < 2) return std::nullopt;
  const Member first = s.archive.member(s.parents[0]), second = s.archive.member(s.parents[1]);
  const Stock& stock = stock_of(first.source_id, s);
  if (!stock.feasible) return std::nullopt;

  // Values that the child could take from the second parent: legal, different values of tunables with the
  // same name.
  std::vector<const Tunable*> gifts;
  for (const Tunable& tunable : stock.feasible->tunables()) {
    const auto theirs = second.configuration.find(tunable.name);
    const auto ours = first.configuration.find(tunable.name);
    if (theirs == second.configuration.end() || ours == first.configuration.end()) continue;
    if (theirs->second == ours->second) continue;
    if (std::ranges::find(tunable.values, theirs->second) != tunable.values.end()) gifts.push_back(&tunable);
  }
  if (gifts.empty()) return std::nullopt;

  Configuration child = first.configuration;
  std::vector<std::string> taken;
  const std::size_t sure =
      below(stream, gifts.size());  // at least one, otherwise the child equals its parent
  for (std::size_t i = 0; i < gifts.size(); ++i) {
    if (!s.all_settings && uniform(stream) >= 0.5 && i != sure) continue;
    child.insert_or_assign(gifts[i]->name, second.configuration.find(gifts[i]->name)->second);
    taken.push_back(gifts[i]->name);
  }
  while (!taken.empty() && !(*stock.feasible)(child)) {
    const std::size_t back = below(stream, taken.size());
    child.insert_or_assign(taken[back], first.configuration.find(taken[back])->second);
    taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(back));
  }
  if (taken.empty()) return std::nullopt;

  Proposal proposal{stock.source, std::move(child), {}};
  proposal.descent.parents = {first.id, second.id};
  proposal.descent.op = name();
  proposal.descent.island = s.island;
  proposal.descent.note = fmt::format("{} from {}", fmt::join(taken, ", "), second.id);
  return proposal;
}

}  // namespace cultivar
