#include "population/islands.hpp"

#include <algorithm>
#include <stdexcept>

namespace cultivar {

namespace {

// Sorts the fittest first; of equals the older one, so that the order never depends on chance.
bool fitter(const Elite& a, const Elite& b) {
  return a.fitness != b.fitness ? a.fitness > b.fitness : a.id < b.id;
}

}  // namespace

Islands::Islands(const IslandOptions& options) : options_(options) {
  if (options.islands < 1 || options.elites < 1 || options.tournament < 1 || options.immigrants < 0)
    throw std::invalid_argument("islands, elites and tournament must be at least 1, immigrants at least 0");
  islands_.resize(static_cast<std::size_t>(options.islands));
}

bool Islands::admit(Island& island, Elite elite) {
  auto& elites = island.elites;
  if (std::ranges::any_of(elites, [&](const Elite& e) { return e.id == elite.id; })) return false;
  if (elite.immigrant) {
    // The number of immigrants is limited: the best of them stay, and natives keep the other places. Without
    // the limit the best of one island would eventually fill all islands, and the islands would be one.
    const auto strangers = std::ranges::count_if(elites, &Elite::immigrant);
    if (strangers >= options_.immigrants) {
      const auto weakest =
          std::find_if(elites.rbegin(), elites.rend(), [](const Elite& e) { return e.immigrant; });
      if (weakest == elites.rend() || !fitter(elite, *weakest)) return false;
      elites.erase(std::next(weakest).base());
    }
  }
  elites.insert(std::ranges::upper_bound(elites, elite, fitter), elite);
  if (elites.size() > static_cast<std::size_t>(options_.elites)) {
    const bool stays = elites.back().id != elite.id;
    elites.pop_back();
    return stays;
  }
  return true;
}

void Islands::settle(IndividualId id, double fitness, int island) {
  Island& home = islands_.at(static_cast<std::size_t>(island));
  home.members.push_back(id);
  admit(home, {id, fitness, false});
}

void Islands::settle_everywhere(IndividualId id, double fitness) {
  for (int i = 0; i < count(); ++i) settle(id, fitness, i);
}

void Islands::revise(IndividualId id, double fitness) {
  for (Island& island : islands_) {
    auto& elites = island.elites;
    if (const auto found = std::ranges::find(elites, id, &Elite::id); found != elites.end()) {
      Elite elite = *found;
      elite.fitness = fitness;
      elites.erase(found);
      elites.insert(std::ranges::upper_bound(elites, elite, fitter), elite);
    } else if (std::ranges::find(island.members, id) != island.members.end()) {
      admit(island, {id, fitness, false});
    }
  }
}

void Islands::expel(IndividualId id) {
  for (Island& island : islands_) {
    std::erase_if(island.elites, [&](const Elite& e) { return e.id == id; });
    std::erase(island.members, id);
  }
}

std::vector<Migration> Islands::judged() {
  std::vector<Migration> moves;
  ++judged_;
  if (options_.migrate_every <= 0 || count() < 2 || judged_ % options_.migrate_every != 0) return moves;
  for (int from = 0; from < count(); ++from) {
    const auto& elites = islands_[static_cast<std::size_t>(from)].elites;
    const auto best = std::ranges::find_if(elites, [](const Elite& e) { return !e.immigrant; });
    if (best != elites.end()) moves.push_back({best->id, from, (from + 1) % count()});
  }
  // All migrants are chosen before any is added, so that none travels two islands at once.
  std::vector<Migration> landed;
  std::vector<double> fitness;
  for (const Migration& move : moves) {
    const auto& elites = islands_[static_cast<std::size_t>(move.from)].elites;
    fitness.push_back(std::ranges::find(elites, move.id, &Elite::id)->fitness);
  }
  for (std::size_t i = 0; i < moves.size(); ++i)
    if (admit(islands_[static_cast<std::size_t>(moves[i].to)], {moves[i].id, fitness[i], true}))
      landed.push_back(moves[i]);
  return landed;
}

const std::vector<Elite>& Islands::elites(int island) const {
  return islands_.at(static_cast<std::size_t>(island)).elites;
}

const std::vector<IndividualId>& Islands::members(int island) const {
  return islands_.at(static_cast<std::size_t>(island)).members;
}

}  // namespace cultivar
