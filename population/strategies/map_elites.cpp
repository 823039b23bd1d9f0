// SPDX-License-Identifier: Apache-2.0
#include "population/strategies/map_elites.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace cultivar {

namespace {

std::string step_of(const std::string& axis, IndividualId id, const Findings& findings,
                    const Archive& archive) {
  if (axis == "family") return std::to_string(archive.family(id));
  for (const std::uint32_t number : archive.settings(id))
    if (archive.setting(number).first == axis) return to_string(archive.setting(number).second);
  const auto found = findings.descriptors.find(axis);
  if (found == findings.descriptors.end()) return "-";
  const double value = found->second;
  return value >= 1.0 ? fmt::format("2^{}", static_cast<int>(std::floor(std::log2(value)))) : "0";
}

}  // namespace

MapElites::MapElites(const PopulationOptions& options) : options_(options) {
  if (options.axes.empty() || options.cells < 1 || options.tournament < 1)
    throw std::invalid_argument("map_elites needs at least one axis, one cell and a tournament of one");
}

std::string MapElites::cell_of(IndividualId id, const Findings& findings, const Archive& archive) const {
  std::string cell;
  for (const std::string& axis : options_.axes)
    cell += fmt::format("{}{} {}", cell.empty() ? "" : ", ", axis, step_of(axis, id, findings, archive));
  return cell;
}

void MapElites::settle(IndividualId id, const Findings& findings, const Archive& archive) {
  const Elite elite{
      id, findings.fitness, false, archive.source_id(id), archive.family(id), findings.workload_values};
  tunings_.add(elite);
  const std::string cell = cell_of(id, findings, archive);
  const auto [place, empty] = cells_.try_emplace(cell, elite);
  if (!empty && fitter(elite, place->second)) place->second = elite;
  if (cells_.size() <= static_cast<std::size_t>(options_.cells)) return;
  cells_.erase(std::ranges::max_element(cells_, fitter, [](const auto& c) { return c.second; }));
}

void MapElites::revalue(IndividualId id, double fitness) {
  tunings_.revalue(id, fitness);
  for (auto& [cell, elite] : cells_)
    if (elite.id == id) elite.fitness = fitness;
}

void MapElites::expel(IndividualId id) {
  tunings_.expel(id);
  std::erase_if(cells_, [&](const auto& c) { return c.second.id == id; });
}

std::vector<Elite> MapElites::elites(int) const {
  std::vector<Elite> all;
  for (const auto& [cell, elite] : cells_) all.push_back(elite);
  std::ranges::sort(all, fitter);
  return all;
}

std::vector<IndividualId> MapElites::parents(int, const ParentsWanted& wanted, const Archive& archive,
                                             RandomStream& stream) const {
  const std::vector<Elite> all = elites(0);
  if (all.empty() || wanted.count < 1) return {};
  std::vector<Elite> firsts = all;
  std::erase_if(firsts, [&](const Elite& e) { return wanted.avoid.contains(e.source); });
  if (firsts.empty()) firsts = all;
  const bool any = uniform(stream) < options_.explore;
  const Elite first = tournament(firsts, any ? 1 : options_.tournament, stream);
  return with_partners(first, all, tunings_, wanted, options_.tournament, archive, stream);
}

}  // namespace cultivar
