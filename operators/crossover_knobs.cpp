// SPDX-License-Identifier: Apache-2.0
#include "operators/crossover_knobs.hpp"

#include <fmt/format.h>
#include <algorithm>

namespace cultivar {

CrossoverKnobs::Stock& CrossoverKnobs::stock_of(const std::string& source_id, const OperatorContext& s) {
  const auto [place, first] = stock_.try_emplace(source_id);
  Stock& stock = place->second;
  if (first) {
    stock.source = s.source_of(source_id);
    if (const auto variant = make_variant(stock.source, s.task);
        variant && !variant->manifest.tunables.empty()) {
      stock.feasible = std::make_unique<Feasibility>(*variant, s.task, s.workloads, s.facts);
      stock.points = std::make_unique<KnobPoints>(variant->manifest.tunables);
      stock.lessons = std::make_unique<Lessons>(Space{stock.points->knobs(), {}});
    }
  }
  if (stock.feasible) read(stock, source_id, s.archive);
  return stock;
}

void CrossoverKnobs::observe(IndividualId id, const Archive& archive) {
  if (avoids_refusals_) unread_[archive.source_id(id)].push_back(id);
}

void CrossoverKnobs::read(Stock& stock, const std::string& source_id, const Archive& archive) {
  std::vector<IndividualId>& unread = unread_[source_id];
  std::erase_if(unread, [&](IndividualId id) {
    const IndividualId twin = archive.duplicate_of(id) ? archive.duplicate_of(id) : id;
    if (archive.state(twin) == Member::State::in_flight) return false;
    if (const auto point = stock.points->of(id, archive))
      stock.lessons->add(*point, archive.state(twin) == Member::State::measured,
                         stock.points->twin_of(id, archive));
    return true;
  });
}

std::optional<Proposal> CrossoverKnobs::propose(const OperatorContext& s, RandomStream& stream) {
  if (s.parents.size() < 2) return std::nullopt;
  const Member first = s.archive.member(s.parents[0]), second = s.archive.member(s.parents[1]);
  Stock& stock = stock_of(first.source_id, s);
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

  const auto draw = [&] {
    Child child{first.configuration, {}};
    const std::size_t sure =
        below(stream, gifts.size());  // at least one, otherwise the child equals its parent
    for (std::size_t i = 0; i < gifts.size(); ++i) {
      if (!s.all_settings && uniform(stream) >= 0.5 && i != sure) continue;
      child.configuration.insert_or_assign(gifts[i]->name, second.configuration.find(gifts[i]->name)->second);
      child.taken.push_back(gifts[i]->name);
    }
    while (!child.taken.empty() && !(*stock.feasible)(child.configuration)) {
      const std::size_t back = below(stream, child.taken.size());
      const std::string& name = child.taken[back];
      child.configuration.insert_or_assign(name, first.configuration.find(name)->second);
      child.taken.erase(child.taken.begin() + static_cast<std::ptrdiff_t>(back));
    }
    return child;
  };
  const auto is_vain = [&](const Child& child) {
    const auto point = stock.points->of(child.configuration);
    return point && stock.lessons->avoids(*point);
  };
  constexpr int kDraws = 16;
  Child child = draw();
  if (avoids_refusals_ && !s.all_settings) {
    for (int i = 1; i < kDraws && (child.taken.empty() || is_vain(child)); ++i) child = draw();
    if (is_vain(child)) return std::nullopt;
  }
  if (child.taken.empty()) return std::nullopt;

  Proposal proposal{stock.source, std::move(child.configuration), {}};
  proposal.descent.parents = {first.id, second.id};
  proposal.descent.op = name();
  proposal.descent.island = s.island;
  proposal.descent.note = fmt::format("{} from {}", fmt::join(child.taken, ", "), second.id);
  return proposal;
}

}  // namespace cultivar
