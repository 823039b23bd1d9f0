// SPDX-License-Identifier: Apache-2.0
#include "operators/best_setting.hpp"

namespace cultivar {

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
