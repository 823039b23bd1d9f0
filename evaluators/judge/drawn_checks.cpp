#include "evaluators/judge/drawn_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/system/secret.hpp"

namespace cultivar {
namespace {

// A variant is rejected if more than one in kFewIllegal of the shapes that it claims is illegal; fewer than
// kLeastClaimed say nothing.
constexpr int kFewIllegal = 10, kLeastClaimed = 8;

std::vector<Workload> small_listed(const Task& task, const Variant& variant) {
  std::vector<Workload> shapes;
  for (const Stage stage : {Stage::sweep, Stage::edge})
    std::ranges::copy(claimed_shapes(task, stage, variant), std::back_inserter(shapes));
  return shapes;
}

}  // namespace

std::vector<Workload> draw_unknown_assignments(const Task& task, const Variant& variant,
                                               const std::vector<std::vector<std::string>>& known,
                                               std::uint64_t seed) {
  if (variant.manifest.specialize.empty()) return {};
  const std::vector<Workload> around = small_listed(task, variant);
  return draw_shapes(
      task, variant, around, limits_of(task, around, 1.0), kDrawnAssignments, seed,
      [&](const Workload& w) { return std::ranges::find(known, macros(variant, task, w)) == known.end(); });
}

std::optional<Evaluation> check_drawn_shapes(Checker& checker, const Facts& facts, const Task& task,
                                             const Compiled& compiled, const std::vector<Workload>& timed,
                                             bool confirming, std::uint64_t seed, const Announce& progress) {
  const Variant& variant = compiled.variant;
  int claimed = 0, illegal = 0;
  const auto legal = [&](const Workload& w) {
    if (compiled.binary(macros(variant, task, w)) == nullptr) return false;
    ++claimed;
    const bool runs = check_constraints(variant, task, w, facts) && make_plan(variant, task, w, facts);
    if (!runs) ++illegal;
    return runs;
  };

  const DrawnCounts counts = confirming ? kDrawnConfirming : kDrawnSearching;
  const std::vector<Workload> around = small_listed(task, variant);
  std::vector<Workload> shapes = draw_shapes(task, variant, around, limits_of(task, around, 1.0),
                                             counts.small, derive_seed(seed, "small"), legal);
  if (confirming) std::ranges::copy_if(compiled.drawn, std::back_inserter(shapes), legal);
  std::vector<Workload> large = timed;
  std::mt19937_64 order(derive_seed(seed, "order"));
  std::ranges::shuffle(large, order);
  for (std::size_t i = 0; i < std::min(counts.large, large.size()); ++i)
    std::ranges::copy(draw_shapes(task, variant, std::span(large).subspan(i, 1),
                                  limits_of(task, std::span(large).subspan(i, 1), 1.0), 1,
                                  derive_seed(seed, "large", i), legal),
                      std::back_inserter(shapes));
  if (confirming) {
    // A card's limits on a grid are no constraints that a kernel must name, so what is illegal does not
    // count.
    const auto runs = [&](const Workload& w) {
      return compiled.binary(macros(variant, task, w)) != nullptr &&
             check_constraints(variant, task, w, facts) && make_plan(variant, task, w, facts);
    };
    std::ranges::copy(draw_far_shapes(task, variant, around, limits_of(task, timed, 1.0), kDrawnFar,
                                      derive_seed(seed, "far"), runs),
                      std::back_inserter(shapes));
  }
  if (claimed >= kLeastClaimed && kFewIllegal * illegal > claimed)
    return rejection(
        Stage::lint, "constraints exclude claimed shapes",
        fmt::format("Of {} shapes that `requires` claims, {} violate a constraint or have no legal plan. "
                    "Constraints are for tunables: narrow `requires` instead.\n",
                    claimed, illegal));
  if (confirming && shapes.empty())
    return rejection(Stage::lint, "the variant claims only shapes that the task lists",
                     "No other shape was found on which it may run. `requires` must describe what the kernel "
                     "needs, such as multiples of a tile, not which shapes it was tried on.\n");

  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::uint64_t own = derive_seed(seed, "drawn", i);
    progress({Stage::edge, {}, fmt::format("drawn shape {}", shapes[i].name)});
    if (auto wrong = checker.check(Stage::edge, compiled, shapes[i], own,
                                   {.mixed = derive_seed(own, "mixed") % 2 == 0, .drawn_shape = true}))
      return wrong;
  }
  return std::nullopt;
}

}  // namespace cultivar
