#include "operators/crossover.hpp"

#include "operators/best_setting.hpp"

namespace cultivar {

std::optional<Brief> Crossover::plan(const Surroundings& s, RandomStream&) {
  if (s.parents.empty()) return std::nullopt;
  const std::string& first = s.archive.source_id(s.parents.front());
  const auto fits = [&](const std::string& source) {
    return source != first && !tried_.contains({first, source});
  };
  // Selection often gives two of one source, which tuning has made many of: then the fittest of another one.
  const IndividualId partner = s.parents.size() > 1 && fits(s.archive.source_id(s.parents[1]))
                                   ? best_setting(s.archive, s.parents[1])
                                   : fittest_of(s.archive, fits);
  if (partner == 0) return std::nullopt;
  Brief brief;
  brief.parents = {best_setting(s.archive, s.parents.front()), partner};
  brief.island = s.island;
  brief.direction = "one kernel with what each of the two does better";
  return brief;
}

void Crossover::asked(const Brief& brief, const Archive& archive) {
  ++tried_[{archive.source_id(brief.parents.at(0)), archive.source_id(brief.parents.at(1))}];
}

}  // namespace cultivar
