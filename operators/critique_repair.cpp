#include "operators/critique_repair.hpp"

#include <algorithm>
#include <array>

#include "operators/best_setting.hpp"

namespace cultivar {

namespace {

constexpr std::string_view kName = "critique_repair";

// Whose failures are worth a repair: those that wrote a source. Other values of tunables are tried anyway.
bool writes(std::string_view op) {
  constexpr std::array<std::string_view, 5> kWriters{"mutate", "crossover", kName, "agent", "submit"};
  return std::ranges::find(kWriters, op) != kWriters.end();
}

// Repairs in a row that led to it.
int repairs_before(IndividualId id, const Archive& archive) {
  int repairs = 0;
  for (Member m = archive.member(id); m.op == kName; m = archive.member(m.parents.front())) {
    ++repairs;
    if (m.parents.empty() || archive.state(m.parents.front()) == Member::State::measured) break;
  }
  return repairs;
}

}  // namespace

void CritiqueRepair::observe(IndividualId id, const Archive& archive) {
  if (archive.state(id) != Member::State::rejected || archive.duplicate_of(id) != 0) return;
  if (!writes(archive.member(id).op) || repairs_before(id, archive) >= rounds_) return;
  failures_.push_back(id);
}

std::optional<Brief> CritiqueRepair::plan(const Surroundings& s, RandomStream&) {
  Brief brief;
  if (!failures_.empty()) {
    const IndividualId failed = failures_.back();
    brief.parents = {failed};
    brief.island = s.archive.member(failed).island;
    brief.round = repairs_before(failed, s.archive) + 1;
    brief.direction = "find out why it was refused, and repair it";
    return brief;
  }
  if (s.parents.empty() || slow_.contains(s.archive.source_id(s.parents.front()))) return std::nullopt;
  brief.parents = {best_setting(s.archive, s.parents.front())};
  brief.island = s.island;
  brief.direction = "find out what makes it slow, and repair that";
  return brief;
}

void CritiqueRepair::asked(const Brief& brief, const Archive& archive) {
  const IndividualId subject = brief.parents.front();
  if (std::erase(failures_, subject) == 0) slow_.insert(archive.source_id(subject));
}

}  // namespace cultivar
