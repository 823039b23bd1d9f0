// SPDX-License-Identifier: Apache-2.0
#include "population/archive.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "evaluators/system/random.hpp"

namespace cultivar {

namespace {

void append(std::uint32_t number, std::vector<std::uint8_t>& to) {
  for (; number >= 0x80U; number >>= 7U) to.push_back(static_cast<std::uint8_t>(number | 0x80U));
  to.push_back(static_cast<std::uint8_t>(number));
}

// The next number, of which `from` leaves the end.
std::uint32_t next(std::vector<std::uint8_t>::const_iterator& from) {
  std::uint32_t number = *from & 0x7fU;
  for (unsigned shift = 7; (*from++ & 0x80U) != 0; shift += 7) number |= (*from & 0x7fU) << shift;
  return number;
}

}  // namespace

std::uint32_t Archive::interned(const std::string& text, std::vector<std::string>& texts,
                                std::unordered_map<std::string, std::uint32_t>& index) {
  const auto [place, added] = index.try_emplace(text, static_cast<std::uint32_t>(texts.size()));
  if (added) texts.push_back(text);
  return place->second;
}

const Archive::Row& Archive::row(IndividualId id) const {
  if (id < 1 || id > size()) throw std::out_of_range("there is no individual " + std::to_string(id));
  return rows_[static_cast<std::size_t>(id - 1)];
}

Archive::Row& Archive::row_of(IndividualId id) {
  row(id);  // checks the id
  return rows_[static_cast<std::size_t>(id - 1)];
}

void Archive::add(const Individual& individual) {
  if (individual.id != size() + 1)
    throw std::logic_error("individuals must be added in the order of their ids");
  static_assert(most_parents <= 255 && most_tunables <= 255);  // as counted in a row
  if (individual.descent.parents.size() > most_parents || individual.configuration.size() > most_tunables)
    throw std::logic_error("an individual has at most 255 parents and 255 tunables");
  Row row;
  row.source = interned(individual.source_id, sources_, source_index_);
  row.family = static_cast<std::uint32_t>(family_of(individual, row.source));
  row.origin = individual.descent.origin;
  row.op = static_cast<std::uint16_t>(interned(individual.descent.op, ops_, op_index_));
  row.island = static_cast<std::uint16_t>(individual.descent.island);
  row.pool_at = static_cast<std::uint32_t>(pool_.size());
  row.parents = static_cast<std::uint8_t>(individual.descent.parents.size());
  row.settings = static_cast<std::uint8_t>(individual.configuration.size());
  for (const IndividualId parent : individual.descent.parents)
    append(static_cast<std::uint32_t>(individual.id - parent), pool_);
  for (const auto& [name, value] : individual.configuration) {
    const auto [place, added] =
        setting_index_[name].try_emplace(value, static_cast<std::uint32_t>(settings_.size()));
    if (added) settings_.emplace_back(name, value);
    append(place->second, pool_);
  }
  rows_.push_back(row);
  in_flight_.push_back(individual.id);
}

// A family that has no parents is a founder's: so far, nobody in the line has another source.
IndividualId Archive::family_of(const Individual& individual, std::uint32_t source) const {
  const std::vector<IndividualId>& parents = individual.descent.parents;
  if (parents.empty()) return individual.id;
  if (parents.front() < 1 || parents.front() >= individual.id)
    throw std::logic_error("individual " + std::to_string(individual.id) + " names " +
                           std::to_string(parents.front()) + " as a parent, which is not older");
  const IndividualId inherited = family(parents.front());
  const Row& first = row(inherited);
  return first.parents > 0 || first.source == source ? inherited : individual.id;
}

void Archive::judge(IndividualId id, bool measured, double fitness, IndividualId duplicate_of) {
  Row& judged = row_of(id);
  judged.state = measured ? Member::State::measured : Member::State::rejected;
  judged.fitness = measured ? fitness : 0.0;
  judged.duplicate_of = static_cast<std::uint32_t>(duplicate_of);
  std::erase(in_flight_, id);
}

void Archive::settle(IndividualId id, double fitness, DuelResult result) {
  Row& row = row_of(id);
  const auto [place, first] = duels_.try_emplace(id, Duel{{}, row.fitness});
  place->second.result = std::move(result);
  row.fitness = fitness;
}

std::optional<double> Archive::error_of_measurements() const {
  constexpr std::size_t kFewest = 3;
  double squares = 0.0;
  std::size_t count = 0;
  for (const auto& [id, duel] : duels_) {
    if (!(duel.measured > 0.0) || !(row(id).fitness > 0.0)) continue;  // it was expelled since
    squares += std::pow(std::log(duel.measured / row(id).fitness), 2.0);
    ++count;
  }
  if (count < kFewest) return std::nullopt;
  return std::sqrt(squares / static_cast<double>(count));
}

const DuelResult* Archive::duel(IndividualId id) const {
  const auto found = duels_.find(id);
  return found == duels_.end() ? nullptr : &found->second.result;
}

void Archive::expel(IndividualId id) {
  Row& judged = row_of(id);
  judged.state = Member::State::rejected;
  judged.fitness = 0.0;
}

std::vector<IndividualId> Archive::parents(IndividualId id) const {
  const Row& r = row(id);
  std::vector<IndividualId> parents(r.parents);
  auto from = pool_.begin() + r.pool_at;
  for (IndividualId& parent : parents) parent = static_cast<std::uint32_t>(id) - next(from);
  return parents;
}

Member Archive::member(IndividualId id) const {
  const Row& r = row(id);
  Member member;
  member.id = id;
  member.state = r.state;
  member.fitness = r.fitness;
  member.duplicate_of = r.duplicate_of;
  member.island = r.island;
  member.origin = r.origin;
  member.op = ops_[r.op];
  member.source_id = sources_[r.source];
  member.parents = parents(id);
  for (const std::uint32_t number : settings(id)) member.configuration.insert(setting(number));
  return member;
}

std::vector<std::uint32_t> Archive::settings(IndividualId id) const {
  const Row& r = row(id);
  auto from = pool_.begin() + r.pool_at;
  for (int i = 0; i < r.parents; ++i) next(from);
  std::vector<std::uint32_t> numbers(r.settings);
  for (std::uint32_t& number : numbers) number = next(from);
  return numbers;
}

std::optional<IndividualId> Novelty::Keys::find(std::uint64_t key) const {
  const auto id = ids.find(key, [&](std::uint32_t other) { return by_id[other] == key; });
  return id ? std::optional<IndividualId>(*id) : std::nullopt;
}

void Novelty::Keys::add(std::uint64_t key, IndividualId id) {
  if (find(key)) return;
  const auto at = static_cast<std::size_t>(id);
  if (by_id.size() <= at) by_id.resize(at + 1);
  by_id[at] = key;
  ids.add(static_cast<std::uint32_t>(id), [this](std::uint32_t other) { return by_id[other]; });
}

std::optional<IndividualId> Novelty::with_variant(std::string_view variant_id) const {
  return variants_.find(name_hash(variant_id));
}

std::optional<IndividualId> Novelty::with_machine_code(std::string_view hash) const {
  if (hash.empty()) return std::nullopt;
  return codes_.find(name_hash(hash));
}

void Novelty::add_variant(std::string_view variant_id, IndividualId id) {
  variants_.add(name_hash(variant_id), id);
}

void Novelty::add_machine_code(std::string_view hash, IndividualId id) {
  if (!hash.empty()) codes_.add(name_hash(hash), id);
}

namespace {

// It, the incumbent of its duel, the incumbent of that one's duel, and so on. The count is a bound for
// records in which an incumbent was not settled before.
std::vector<IndividualId> incumbents_of(const Archive& archive, IndividualId id) {
  std::vector<IndividualId> all{id};
  while (static_cast<std::int64_t>(all.size()) <= archive.size())
    if (const DuelResult* const duel = archive.duel(all.back()))
      all.push_back(duel->incumbent);
    else
      break;
  return all;
}

SpeedRatio product(const SpeedRatio& a, const SpeedRatio& b) {
  const double log_ratio = a.log_ratio + b.log_ratio;
  return {log_ratio, log_ratio - std::hypot(a.log_ratio - a.lower, b.log_ratio - b.lower),
          log_ratio + std::hypot(a.upper - a.log_ratio, b.upper - b.log_ratio)};
}

SpeedRatio inverse(const SpeedRatio& ratio) {
  return {-ratio.log_ratio, -ratio.upper, -ratio.lower};
}

}  // namespace

std::optional<SpeedByDuels> speed_by_duels(const Archive& archive, IndividualId first, IndividualId second) {
  const std::vector<IndividualId> ours = incumbents_of(archive, first),
                                  theirs = incumbents_of(archive, second);
  const auto common = std::ranges::find_first_of(ours, theirs);
  if (first == second || common == ours.end()) return std::nullopt;
  std::optional<SpeedByDuels> speed;
  const auto follow = [&](IndividualId challenger, bool inverted) {
    const DuelResult& duel = *archive.duel(challenger);
    const auto step = [&](const SpeedRatio& ratio) { return inverted ? inverse(ratio) : ratio; };
    if (!speed) {
      speed.emplace();
      speed->all = step(duel.all);
      std::ranges::transform(duel.workloads, std::back_inserter(speed->workloads), step);
      return;
    }
    speed->all = product(speed->all, step(duel.all));
    if (speed->workloads.size() != duel.workloads.size()) return speed->workloads.clear();
    for (std::size_t w = 0; w < duel.workloads.size(); ++w)
      speed->workloads[w] = product(speed->workloads[w], step(duel.workloads[w]));
  };
  for (auto id = ours.begin(); id != common; ++id) follow(*id, false);
  for (auto id = theirs.begin(); *id != *common; ++id) follow(*id, true);
  return speed;
}

IndividualId fittest_of(const Archive& archive,
                        const std::function<bool(const std::string& source_id)>& wanted) {
  IndividualId best = 0;
  for (IndividualId id = 1; id <= archive.size(); ++id)
    if (archive.state(id) == Member::State::measured && archive.duplicate_of(id) == 0 &&
        (best == 0 || archive.fitness(id) > archive.fitness(best)) && wanted(archive.source_id(id)))
      best = id;
  return best;
}

IndividualId best_setting(const Archive& archive, IndividualId id) {
  const std::string& source = archive.source_id(id);
  const IndividualId best = fittest_of(archive, [&](const std::string& other) { return other == source; });
  return best == 0 ? id : best;
}

}  // namespace cultivar
