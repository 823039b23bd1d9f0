// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/alternatives.hpp"

#include <algorithm>
#include <iterator>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/judge/source_numbers.hpp"

namespace cultivar {

std::vector<Workload> draw_alternatives(const Task& task, const Variant& variant,
                                        std::span<const Workload> reached, std::span<const Focus> foci,
                                        std::uint64_t seed,
                                        const std::function<bool(const Workload&)>& usable,
                                        std::vector<ClaimedAlternative>* unreached) {
  std::vector<Workload> drawn;
  const std::vector<Workload> listed = listed_shapes(task, variant.manifest.target);
  for (ClaimedAlternative& alternative : alternatives_beyond(task, variant, reached)) {
    const std::function<bool(const Workload&)> holds = [&](const Workload& w) {
      return claims(alternative.only, task, w) && usable(w);
    };
    std::vector<Workload> own;
    for (const Workload& w : listed)
      if (own.size() < 2 && holds(w)) own.push_back(w);
    // Its own numbers first: they are few among those of the source.
    std::vector<Focus> first;
    for (const std::int64_t number : literals_in(alternative.text, variant.manifest.language->comments))
      for (const Dimension& d : task.dimensions)
        for (const double offset : {0.0, 1.0, -1.0})
          first.push_back(
              {d.name, std::max(1.0, static_cast<double>(number) + offset), Focus::Relation::none, {}, true});
    std::ranges::copy(foci, std::back_inserter(first));
    for (const ShapeLimits& limits : {kMediumShapes, kLargestShapes}) {
      if (!own.empty()) break;
      own = draw_focused_shapes(task, alternative.only, listed, limits, first, 2, seed, holds);
      if (own.empty()) own = draw_shapes(task, alternative.only, listed, limits, 2, seed, holds);
    }
    if (own.empty() && unreached != nullptr) unreached->push_back(std::move(alternative));
    std::ranges::copy(own, std::back_inserter(drawn));
  }
  return drawn;
}

}  // namespace cultivar
