// SPDX-License-Identifier: Apache-2.0
#include "population/strategies/specialists.hpp"

#include <algorithm>
#include <cmath>

namespace cultivar {

namespace {

constexpr std::size_t kKept = 4;  // of each workload

void sort_by(std::vector<Elite>& elites, std::size_t workload) {
  std::ranges::sort(elites, [&](const Elite& a, const Elite& b) {
    const double mine = a.workload_values[workload], other = b.workload_values[workload];
    return mine != other ? mine > other : a.id < b.id;
  });
  if (elites.size() > kKept) elites.resize(kKept);
}

}  // namespace

void Specialists::settle(IndividualId id, const Findings& findings, const Archive& archive) {
  others_->settle(id, findings, archive);
  Elite elite{id, findings.fitness, false, archive.source_id(id), 0, findings.workload_values};
  // The fitness is corrected for the device's pace, and is the geometric mean of the values.
  double logs = 0.0;
  for (const double value : elite.workload_values) logs += std::log(value);
  const double mean = std::exp(logs / static_cast<double>(elite.workload_values.size()));
  for (double& value : elite.workload_values) value *= findings.fitness / mean;
  if (fastest_.empty()) fastest_.resize(elite.workload_values.size());
  if (fastest_.size() != elite.workload_values.size()) return;
  for (std::size_t w = 0; w < fastest_.size(); ++w) {
    fastest_[w].push_back(elite);
    sort_by(fastest_[w], w);
  }
}

void Specialists::revalue(IndividualId id, double fitness) {
  others_->revalue(id, fitness);
  for (std::size_t w = 0; w < fastest_.size(); ++w)
    for (Elite& elite : fastest_[w]) {
      if (elite.id != id || !(elite.fitness > 0.0)) continue;
      for (double& value : elite.workload_values) value *= fitness / elite.fitness;
      elite.fitness = fitness;
      sort_by(fastest_[w], w);
      break;
    }
}

void Specialists::expel(IndividualId id) {
  others_->expel(id);
  for (auto& elites : fastest_) std::erase_if(elites, [&](const Elite& e) { return e.id == id; });
}

std::vector<IndividualId> Specialists::parents(int island, const ParentsWanted& wanted,
                                               const Archive& archive, RandomStream& stream) const {
  std::vector<IndividualId> chosen = others_->parents(island, wanted, archive, stream);
  const bool alone = wanted.count == 1, beside = wanted.count == 2 && wanted.partner == Partner::any;
  if (chosen.empty() || fastest_.empty() || !(alone || beside) || uniform(stream) >= share_) return chosen;
  const auto& elites = fastest_[below(stream, fastest_.size())];
  if (elites.empty() || wanted.avoid.contains(elites.front().source)) return chosen;
  const IndividualId id = elites.front().id;
  if (alone) return {id};
  if (id == chosen.front()) return chosen;
  std::vector<IndividualId> both{chosen.front(), id};
  if (archive.fitness(id) > archive.fitness(both.front())) std::swap(both[0], both[1]);
  return both;
}

std::vector<Elite> Specialists::elites(int island) const {
  std::vector<Elite> all = others_->elites(island);
  for (const auto& elites : fastest_)
    if (!elites.empty() && std::ranges::find(all, elites.front().id, &Elite::id) == all.end())
      all.push_back(elites.front());
  std::ranges::sort(all, fitter);
  return all;
}

}  // namespace cultivar
