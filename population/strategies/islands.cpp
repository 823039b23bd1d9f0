// SPDX-License-Identifier: Apache-2.0
#include "population/strategies/islands.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "population/individual.hpp"

namespace cultivar {

namespace {
constexpr double kPromising = 0.5;  // fitness of a founder, relative to the best
// With 1.5, where each step gives 8 %, islands became alike too early: one search in ten ended 20 % slower.
constexpr double kFarBehind = 3.0;
}  // namespace

bool Islands::Island::young(const PopulationOptions& options) const {
  return begun && natives <= options.reset_after / 2;
}

Islands::Islands(const PopulationOptions& options) : options_(options) {
  if (options.islands < 1 || options.elites < 1 || options.tournament < 1 || options.immigrants < 0 ||
      options.family_elites < 1)
    throw std::invalid_argument(
        "islands, elites, family_elites and tournament must be at least 1, immigrants at least 0");
  islands_.resize(static_cast<std::size_t>(options.islands));
}

int Islands::turn(std::int64_t proposals) const {
  if (options_.rules < 2) return Strategy::turn(proposals);
  const auto led = [&](std::int64_t n) {
    return static_cast<std::int64_t>(std::floor(static_cast<double>(n) * options_.lead));
  };
  const std::int64_t before = led(proposals);
  return led(proposals + 1) > before ? static_cast<int>(leader()) : Strategy::turn(proposals - before);
}

bool Islands::admit(Island& island, const Elite& elite) {
  auto& elites = island.elites;
  const auto remove_unless_fitter = [&](const auto& place) {  // place: of the one that would have to leave
    if (!fitter(elite, *place)) return false;
    elites.erase(elites.begin() + (&*place - elites.data()));
    return true;
  };
  if (std::ranges::any_of(elites, [&](const Elite& e) { return e.id == elite.id; })) return false;
  const bool by_source = options_.rules >= 2;
  if (by_source)
    if (const auto same = std::ranges::find(elites, elite.source, &Elite::source);
        same != elites.end() && !remove_unless_fitter(same))
      return false;
  if (elite.immigrant) {
    // The number of immigrants is limited: the best of them stay, and natives keep the other places. Without
    // the limit the best of one island would eventually fill all islands, and the islands would be one.
    const auto strangers = std::ranges::count_if(elites, &Elite::immigrant);
    if (strangers >= options_.immigrants) {
      const auto weakest =
          std::find_if(elites.rbegin(), elites.rend(), [](const Elite& e) { return e.immigrant; });
      if (weakest == elites.rend() || !remove_unless_fitter(weakest)) return false;
    }
  }
  elites.insert(std::ranges::upper_bound(elites, elite, fitter), elite);
  if (elites.size() <= static_cast<std::size_t>(options_.elites)) return true;
  // Niches: the weakest of the families that have more than their share leaves first.
  auto leaving = std::prev(elites.end());
  if (by_source) {
    const auto crowded = std::find_if(elites.rbegin(), elites.rend(), [&](const Elite& e) {
      return std::ranges::count(elites, e.family, &Elite::family) > options_.family_elites;
    });
    if (crowded != elites.rend()) leaving = std::prev(crowded.base());
  }
  const bool stays = leaving->id != elite.id;
  elites.erase(leaving);
  return stays;
}

void Islands::settle(Island& home, const Elite& elite) {
  if (options_.rules < 2 || home.sources.insert(elite.source).second) home.members.push_back(elite.id);
  admit(home, elite);
  ++home.barren;
  ++home.natives;
  if (elite.fitness > home.best) {
    home.best = elite.fitness;
    home.barren = 0;
  }
}

void Islands::settle(IndividualId id, const Findings& findings, const Archive& archive) {
  Elite elite{id, findings.fitness, false, archive.source_id(id), 0, findings.workload_values};
  if (options_.rules >= 2) {
    elite.family = archive.family(id);
    tunings_.add(elite);
  }
  if (archive.origin(id) == Origin::operator_) {
    Island& home = islands_.at(static_cast<std::size_t>(archive.island(id)));
    home.bred = true;
    return settle(home, elite);
  }
  for (Island& island : islands_) settle(island, elite);
}

void Islands::give_place(Island& island, std::vector<Elite>::iterator place) {
  const Elite before = *place;
  island.elites.erase(place);
  const std::vector<Elite>& settings = tunings_.of(before.source);
  if (settings.empty()) return;
  Elite next = settings.front();
  next.immigrant = before.immigrant;
  admit(island, next);
}

void Islands::revalue(IndividualId id, double fitness) {
  tunings_.revalue(id, fitness);
  const std::string source = options_.rules >= 11 ? tunings_.source_of(id) : std::string();
  for (Island& island : islands_) {
    if (const auto found = std::ranges::find(island.elites, id, &Elite::id); found != island.elites.end()) {
      found->fitness = fitness;
      std::ranges::sort(island.elites, fitter);
    }
    if (source.empty()) continue;
    const IndividualId best = tunings_.of(source).front().id;
    const auto place = std::ranges::find(island.elites, source, &Elite::source);
    if (place != island.elites.end() && place->id != best && (place->id == id || best == id))
      give_place(island, place);
  }
}

void Islands::expel(IndividualId id) {
  const std::string source = tunings_.source_of(id);
  tunings_.expel(id);
  const std::vector<Elite>& others = tunings_.of(source);
  for (Island& island : islands_) {
    const auto place = std::ranges::find(island.elites, id, &Elite::id);
    const bool member = std::erase(island.members, id) > 0;
    if (member && !others.empty()) island.members.push_back(others.front().id);
    if (member && others.empty()) island.sources.erase(source);  // its next setting is a member again
    if (place != island.elites.end()) give_place(island, place);
  }
}

std::vector<Migration> Islands::judged() {
  ++judged_;
  std::vector<Migration> moves;
  if (options_.migrate_every > 0 && islands() > 1 && judged_ % options_.migrate_every == 0) moves = migrate();
  if (options_.rules >= 3)
    for (const Migration& move : catch_up()) moves.push_back(move);
  if (options_.rules < 2 || options_.reset_after <= 0) return moves;
  for (std::size_t i = 0; i < islands_.size(); ++i) {
    if (islands_[i].barren < options_.reset_after || i == leader()) continue;
    const auto begun = begin_anew(i);
    moves.insert(moves.end(), begun.begin(), begun.end());
  }
  return moves;
}

std::vector<Migration> Islands::migrate() {
  std::vector<Migration> moves;
  std::vector<Elite> migrants;
  // All migrants are chosen before any is added, so that none travels two islands at once.
  for (int from = 0; from < islands(); ++from) {
    const auto& elites = islands_[static_cast<std::size_t>(from)].elites;
    const auto best = std::ranges::find_if(elites, [](const Elite& e) { return !e.immigrant; });
    if (best == elites.end()) continue;
    moves.push_back({best->id, from, (from + 1) % islands()});
    migrants.push_back(*best);
    migrants.back().immigrant = true;
  }
  std::vector<Migration> landed;
  for (std::size_t i = 0; i < moves.size(); ++i)
    if (!islands_[static_cast<std::size_t>(moves[i].to)].young(options_) &&
        admit(islands_[static_cast<std::size_t>(moves[i].to)], migrants[i]))
      landed.push_back(moves[i]);
  return landed;
}

// Of several that leave the founders behind, an island takes the one that is on the fewest islands.
std::vector<Migration> Islands::catch_up() {
  std::vector<Migration> moves;
  for (std::size_t to = 0; to < islands_.size(); ++to) {
    Island& island = islands_[to];
    if (island.bred || island.begun || island.elites.empty()) continue;
    const auto holders = [&](const Elite& elite) {
      return std::ranges::count_if(islands_, [&](const Island& other) {
        return std::ranges::find(other.elites, elite.source, &Elite::source) != other.elites.end();
      });
    };
    // Settings of a source count for all islands: untuned, a founder looks slower than it is.
    const Elite& front = island.elites.front();
    const std::vector<Elite>& settings = tunings_.of(front.source);
    const double own = settings.empty() ? front.fitness : settings.front().fitness;
    const Elite* chosen = nullptr;
    std::size_t home = 0;
    for (std::size_t from = 0; from < islands_.size(); ++from)
      for (const Elite& elite : islands_[from].elites) {
        if (elite.immigrant || island.sources.contains(elite.source) || elite.fitness < kFarBehind * own)
          continue;
        if (chosen == nullptr || holders(elite) < holders(*chosen) ||
            (holders(elite) == holders(*chosen) && fitter(elite, *chosen)))
          chosen = &elite, home = from;
      }
    if (chosen == nullptr) continue;
    Elite migrant = *chosen;
    migrant.immigrant = true;
    if (admit(island, migrant)) moves.push_back({migrant.id, static_cast<int>(home), static_cast<int>(to)});
  }
  return moves;
}

std::size_t Islands::leader() const {
  std::size_t leader = 0;
  const auto best = [&](std::size_t i) {
    return islands_[i].elites.empty() ? 0.0 : islands_[i].elites.front().fitness;
  };
  for (std::size_t i = 1; i < islands_.size(); ++i)
    if (best(i) > best(leader)) leader = i;
  return leader;
}

// The founder is the fittest elite of the other islands, from a family that does not lead the island (which
// shows where its present family ends), unless all those are far slower than the best.
std::vector<Migration> Islands::begin_anew(std::size_t which) {
  const Island& island = islands_[which];
  const IndividualId left = island.elites.empty() ? 0 : island.elites.front().family;
  const Elite* founder = nullptr;
  std::size_t from = 0;
  const double best = islands_[leader()].elites.empty() ? 0.0 : islands_[leader()].elites.front().fitness;
  const auto fresh = [&](const Elite& e) { return e.family != left && e.fitness >= kPromising * best; };
  const auto better = [&](const Elite& a, const Elite& b) {
    const bool fresh_a = fresh(a), fresh_b = fresh(b);
    return fresh_a != fresh_b ? fresh_a : fitter(a, b);
  };
  for (std::size_t i = 0; i < islands_.size(); ++i)
    for (const Elite& elite : islands_[i].elites)
      if (i != which && (founder == nullptr || better(elite, *founder))) founder = &elite, from = i;
  return founder == nullptr ? std::vector<Migration>() : begin_anew(which, *founder, from);
}

std::vector<Migration> Islands::begin_anew(std::size_t which, Elite founder, std::size_t from) {
  founder.immigrant = false;
  islands_[which] = {};
  settle(islands_[which], founder);
  islands_[which].begun = true;
  return {{founder.id, static_cast<int>(from), static_cast<int>(which), true}};
}

std::vector<Migration> Islands::reset(const Archive& archive, IndividualId founder) {
  if (islands() < 2) return {};
  const std::size_t best = leader();
  std::size_t barren = best == 0 ? 1 : 0;
  for (std::size_t i = 0; i < islands_.size(); ++i)
    if (i != best && islands_[i].barren > islands_[barren].barren) barren = i;
  if (founder == 0) return begin_anew(barren);
  Elite elite{founder, archive.fitness(founder), false, archive.source_id(founder), archive.family(founder)};
  for (const Elite& setting : tunings_.of(elite.source))
    if (setting.id == founder) elite = setting;
  return begin_anew(barren, elite, barren);
}

std::vector<IndividualId> Islands::parents_by_rules_1(const Island& island, int count, const Archive& archive,
                                                      RandomStream& stream) const {
  std::vector<IndividualId> parents;
  if (island.elites.empty() && island.members.empty()) return parents;
  // Draws again until the parents differ. The number of attempts is limited, because an island may have too
  // few.
  for (int tries = 0; tries < 8 * count && static_cast<int>(parents.size()) < count; ++tries) {
    const bool explore = uniform(stream) < options_.explore;
    const IndividualId id = (explore || island.elites.empty()) && !island.members.empty()
                                ? island.members[below(stream, island.members.size())]
                                : tournament(island.elites, options_.tournament, stream).id;
    if (std::ranges::find(parents, id) == parents.end()) parents.push_back(id);
  }
  std::ranges::sort(parents, [&](IndividualId a, IndividualId b) {
    const double fa = archive.fitness(a), fb = archive.fitness(b);
    return fa != fb ? fa > fb : a < b;
  });
  return parents;
}

// Any source of the island, at its best setting.
Elite Islands::explored(const Island& island, const ParentsWanted& wanted, const Archive& archive,
                        RandomStream& stream) const {
  std::vector<IndividualId> members = island.members;
  if (!wanted.avoid.empty())
    std::erase_if(members, [&](IndividualId id) { return wanted.avoid.contains(archive.source_id(id)); });
  if (members.empty()) members = island.members;
  const IndividualId id = members[below(stream, members.size())];
  const auto& settings = tunings_.of(archive.source_id(id));
  return settings.empty() ? Elite{id, archive.fitness(id), false, archive.source_id(id)} : settings.front();
}

std::vector<IndividualId> Islands::parents(int number, const ParentsWanted& wanted, const Archive& archive,
                                           RandomStream& stream) const {
  const Island& island = islands_.at(static_cast<std::size_t>(number));
  if (options_.rules < 2) return parents_by_rules_1(island, wanted.count, archive, stream);
  if (wanted.count < 1 || (island.elites.empty() && island.members.empty())) return {};
  std::vector<Elite> firsts = island.elites;
  std::erase_if(firsts, [&](const Elite& e) { return wanted.avoid.contains(e.source); });
  if (firsts.empty()) firsts = island.elites;
  const bool explore = !island.members.empty() && (firsts.empty() || uniform(stream) < options_.explore);
  const Elite first =
      explore ? explored(island, wanted, archive, stream) : tournament(firsts, options_.tournament, stream);
  std::vector<Elite> partners = island.elites;
  if (wanted.partner == Partner::complement) {
    const ParentsOf parents_of = [&](IndividualId id) { return archive.parents(id); };
    const bool alone = std::ranges::all_of(partners, [&](const Elite& e) {
      return e.source == first.source || in_one_line(e.id, first.id, parents_of);
    });
    if (alone)  // the other islands have partners
      for (const Island& other : islands_)
        if (&other != &island) partners.insert(partners.end(), other.elites.begin(), other.elites.end());
    std::ranges::sort(partners, fitter);
  }
  return with_partners(first, partners, tunings_, wanted, options_.tournament, archive, stream);
}

std::vector<Elite> Islands::elites(int island) const {
  return islands_.at(static_cast<std::size_t>(island)).elites;
}

const std::vector<IndividualId>& Islands::members(int island) const {
  return islands_.at(static_cast<std::size_t>(island)).members;
}

}  // namespace cultivar
