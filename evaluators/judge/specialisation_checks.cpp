// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/specialisation_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <set>

#include "evaluators/judge/alternatives.hpp"
#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/judge/outcomes.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

// How much more a shape may cost than the stress shapes, to have the macros of a specialisation.
constexpr double kStressFactor = 8.0;
constexpr std::size_t kStressShapes = 2;  // of a specialisation, in a confirmation
// And in a search, of so many specialisations and stress cases, chosen secretly.
constexpr std::size_t kStressedSearching = 4, kCasesSearching = 2;
constexpr std::uint64_t kComposedRuns = 4;  // of each of these

}  // namespace

std::vector<Workload> draw_unknown_assignments(const Task& task, const Variant& variant,
                                               const std::vector<std::vector<std::string>>& known,
                                               std::uint64_t seed) {
  if (variant.manifest.specialize.empty()) return {};
  const std::vector<Workload> around = small_listed(task, variant);
  std::vector<std::vector<std::string>> assignments = known;
  const auto unknown = [&](const Workload& w) {
    return std::ranges::find(assignments, macros(variant, task, w)) == assignments.end();
  };
  std::vector<Workload> drawn;
  const auto add = [&](const std::vector<Workload>& shapes) {
    for (const Workload& w : shapes)
      if (drawn.size() < kDrawnAssignments && unknown(w)) {
        assignments.push_back(macros(variant, task, w));
        drawn.push_back(w);
      }
  };
  std::vector<Focus> foci = foci_of(task, variant, derive_seed(seed, "foci"));
  // A special case is compiled at its number only.
  std::set<std::pair<std::string, double>> seen;
  const auto others = std::stable_partition(foci.begin(), foci.end(), [&](const Focus& focus) {
    return focus.compared && focus.relation == Focus::Relation::none &&
           std::ranges::count(variant.manifest.specialize, focus.name) > 0 &&
           seen.emplace(focus.name, focus.value).second;
  });
  // Small numbers are mostly those of lanes and bytes.
  constexpr double kLeastWidth = 64.0;
  std::stable_partition(foci.begin(), others, [&](const Focus& focus) { return focus.value >= kLeastWidth; });
  if (foci.size() > 8 * kDrawnAssignments) foci.resize(8 * kDrawnAssignments);
  std::vector<Workload> reached = every_claimed_shape(task, variant);
  std::erase_if(reached, unknown);
  add(draw_alternatives(task, variant, reached, foci, derive_seed(seed, "alternatives"), unknown, nullptr));
  if (reached.empty()) reached = around;
  add(draw_outcome_shapes(task, variant, reached, kOutcomeAssignments, derive_seed(seed, "outcomes"),
                          unknown));
  add(draw_focused_shapes(task, variant, around, kMediumShapes, foci, kFocusedAssignments, seed, unknown));
  add(draw_shapes(task, variant, around, limits_of(task, around, 1.0), kDrawnAssignments, seed, unknown));
  return drawn;
}

std::optional<Evaluation> check_stressed_specialisations(Checker& checker, const Task& task,
                                                         const Compiled& compiled,
                                                         const std::vector<Workload>& timed, bool confirming,
                                                         std::uint64_t seed, const Announce& progress) {
  const Variant& variant = compiled.variant;
  if (variant.manifest.specialize.empty() || task.stress.empty()) return std::nullopt;
  const std::vector<Workload> stressed = claimed_shapes(task, Stage::stress, variant);
  std::set<std::vector<std::string>> known;
  for (const Workload& w : stressed) known.insert(macros(variant, task, w));
  std::vector<Workload> others = timed;
  if (confirming) {
    std::ranges::copy(every_claimed_shape(task, variant), std::back_inserter(others));
    std::ranges::copy(compiled.drawn, std::back_inserter(others));
  }
  const std::vector<Workload> around = stressed.empty() ? small_listed(task, variant) : stressed;
  const ShapeLimits limits = limits_of(task, around, kStressFactor);
  std::mt19937_64 order(derive_seed(seed, "order"));
  if (!confirming) std::ranges::shuffle(others, order);
  std::uint64_t run = 0;
  std::size_t reached = 0;
  for (const Workload& like : others) {
    std::vector<std::string> own = macros(variant, task, like);
    if (compiled.binary(own) == nullptr || !known.insert(own).second) continue;
    if (!confirming && ++reached > kStressedSearching) break;
    for (const Workload& shape :
         draw_shapes_like(task, variant, around, limits, like, confirming ? kStressShapes : 1,
                          derive_seed(seed, "alike", run))) {
      std::vector<const StressCase*> cases;
      for (const StressCase& stress : task.stress)
        if (applies(task, stress, shape)) cases.push_back(&stress);
      if (!confirming) std::ranges::shuffle(cases, order);
      if (!confirming && cases.size() > kCasesSearching) cases.resize(kCasesSearching);
      for (const StressCase* stress : cases) {
        progress({Stage::stress, {}, fmt::format("stress {} {}", shape.name, stress->name)});
        if (auto wrong = checker.check(Stage::stress, compiled, shape, derive_seed(seed, "stress", run++),
                                       {.stress = stress, .drawn_shape = true}))
          return wrong;
      }
      for (std::uint64_t i = 0; i < (confirming ? kComposedRuns : 0); ++i)
        if (auto wrong = checker.check(Stage::stress, compiled, shape, derive_seed(seed, "stress", run++),
                                       {.composed = true, .drawn_shape = true}))
          return wrong;
    }
  }
  return std::nullopt;
}

}  // namespace cultivar
