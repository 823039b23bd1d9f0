#include "operators/prompts/families.hpp"

#include "operators/edits/similarity.hpp"
#include "population/lineage.hpp"

namespace cultivar {

const std::vector<std::string>& Families::lines(IndividualId id) {
  const auto [place, added] = lines_.try_emplace(archive_.source_id(id));
  if (added) place->second = bare_lines(source_of_(id));
  return place->second;
}

IndividualId Families::founder(IndividualId id) {
  constexpr double kRelated = 0.5;
  IndividualId founder = 0, before = 0;
  for (const IndividualId each : chain_to_seed(id, [&](IndividualId of) { return archive_.parents(of); })) {
    if (const auto known = founders_.find(each); known != founders_.end())
      founder = known->second;
    else if (before == 0 || (archive_.source_id(each) != archive_.source_id(before) &&
                             likeness(lines(before), lines(each)) < kRelated))
      founder = each;
    founders_.emplace(each, founder);
    before = each;
  }
  return founder;
}

}  // namespace cultivar
