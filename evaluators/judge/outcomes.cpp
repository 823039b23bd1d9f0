// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/outcomes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "evaluators/expression/expression.hpp"
#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/claims.hpp"
#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/judge/source_numbers.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/plan_scope.hpp"

namespace cultivar {
namespace {

// What no check may cost is still claimed, up to here.
constexpr ShapeLimits kClaimed{1e12, 0x1p33};
constexpr std::size_t kAnywhere = 4000, kCandidates = 48;  // draws; of which so many are chosen from
constexpr std::size_t kAsDrawn = 1;       // places of an outcome whose remainders are not changed
constexpr std::size_t kFruitless = 1200;  // draws that show nothing new, before no more are made

class Gathering {
 public:
  explicit Gathering(const Variant& variant) {
    for (const Tunable& tunable : variant.manifest.tunables) tunables_.insert(tunable.name);
    for (const auto& [name, value] : variant.manifest.let) {
      add("let." + name, value);
      // Where it is 0 a loop may not run, or not end.
      if (value.text().find_first_of("/-") != std::string::npos ||
          value.text().find("floor") != std::string::npos)
        both("let." + name, {fmt::format("{} < 1", name)});
      if (std::ranges::all_of(value.names(), [&](const auto& of) { return tunables_.contains(of); }))
        tunables_.insert(name);
    }
    for (const WorkspaceSpec& workspace : variant.manifest.workspace)
      add("workspace." + workspace.name, workspace.bytes);
    for (const TensorMapSpec& map : variant.manifest.tensor_maps)
      for (const auto* values : {&map.sizes, &map.strides, &map.box, &map.element_strides})
        for (const Expression& value : *values) add("tensor_maps." + map.name, value);
    for (std::size_t i = 0; i < variant.manifest.launch.size(); ++i) {
      const KernelLaunch& launch = variant.manifest.launch[i];
      const std::string where = fmt::format("launch[{}]", i);
      if (launch.when) {
        both(where + ".when", {launch.when->text()});
        add(where + ".when", *launch.when);
      }
      if (launch.repeat) add(where + ".repeat", *launch.repeat);
      for (const auto& [key, values] : launch.keys)
        for (const Expression& value : values) add(where + "." + key, value);
      for (const ArgumentSpec& argument : launch.args)
        for (const Condition& condition : conditions_in(argument.text)) both(where + ".args", condition);
    }
  }
  std::vector<Outcome> all;

 private:
  void add(const std::string& where, const Expression& expression) {
    for (const Condition& condition : conditions_in(expression.text())) both(where, condition);
  }
  void both(const std::string& where, const Condition& given) {
    if (!known_.insert(given.text).second) return;
    Expected<Expression> condition = Expression::parse(given.text);
    if (!condition ||
        std::ranges::all_of(condition->names(), [&](const auto& name) { return tunables_.contains(name); }))
      return;
    for (const bool holds : {true, false}) all.push_back({where, *condition, holds, given.operand});
  }

  std::set<std::string, std::less<>> tunables_;  // and lets that depend on nothing else
  std::set<std::string> known_;
};

bool shows(const Outcome& outcome, const Bindings& scope) {
  const Expected<double> value = outcome.condition.evaluate(scope);
  return value && (*value != 0.0) == outcome.holds;
}

std::vector<double> numbers_in(const Variant& variant, std::span<const Outcome> outcomes) {
  std::vector<double> numbers;
  for (const Outcome& outcome : outcomes)
    for (const std::int64_t number :
         literals_in(outcome.condition.text(), variant.manifest.language->comments))
      numbers.push_back(static_cast<double>(number));
  return numbers;
}

// The same outcome with other remainders: draws are often numbers of the source and multiples of powers of
// two, which tiles divide. `turn`: remainders differ from one place to the next, so that of five some are in
// each half of a tile of eight. As it was if none is found.
Place with_other_remainders(const Place& place, std::uint64_t turn, const Outcome& outcome,
                            const Variant& variant, const Task& task, const Facts& here, std::uint64_t seed,
                            const std::function<bool(const Place&)>& usable) {
  constexpr std::uint64_t kTries = 8, kTile = 16, kStep = 7;
  for (std::uint64_t i = 0; i < kTries; ++i) {
    Bindings next = given_values(task, place.shape);
    for (const Dimension& d : task.dimensions) {
      const auto given = next.find(d.name);
      if (given == next.end() || given->second < static_cast<double>(kTile)) continue;
      // First all dimensions, then some: of a condition such as C % 4 == 0, only others can move.
      if (i > 0 && derive_seed(seed, "moved " + d.name, turn * kTries + i) % 2 == 0) continue;
      const std::uint64_t wanted = derive_seed(seed, d.name) + kStep * turn + i;
      given->second += static_cast<double>((wanted - static_cast<std::uint64_t>(given->second)) % kTile);
    }
    const Expected<Workload> made = make_workload(task, std::move(next), place.shape.dtype, true);
    if (!made || !claims(variant, task, *made)) continue;
    const Place moved{*made, place.machine};
    const auto scope = scope_of(variant, task, moved.shape, facts_of(variant, here, moved.machine));
    if (scope && shows(outcome, *scope) && usable(moved)) return moved;
  }
  return place;
}

}  // namespace

std::vector<Outcome> outcomes_of(const Variant& variant) {
  return std::move(Gathering(variant).all);
}

Facts facts_of(const Variant& variant, const Facts& here, std::uint64_t machine) {
  const auto another = variant.manifest.target->another_machine;
  return machine == 0 || another == nullptr ? here : another(here, machine);
}

std::vector<Outcome> outcomes_beyond(const Variant& variant, const Task& task, const Facts& here,
                                     std::span<const Workload> shapes, std::size_t least) {
  std::vector<Outcome> all = outcomes_of(variant), beyond;
  std::vector<std::size_t> shown(all.size());
  for (const Workload& shape : all.empty() ? std::span<const Workload>() : shapes)
    if (const auto scope = scope_of(variant, task, shape, here))
      for (std::size_t i = 0; i < all.size(); ++i)
        if (shown[i] < least && shows(all[i], *scope)) ++shown[i];
  for (std::size_t i = 0; i < all.size(); ++i)
    if (shown[i] < least) beyond.push_back(std::move(all[i]));
  return beyond;
}

void leave_out_shown(std::vector<Outcome>& outcomes, const Variant& variant, const Task& task,
                     const Facts& here, const Workload& shape) {
  if (const auto scope = scope_of(variant, task, shape, here))
    std::erase_if(outcomes, [&](const Outcome& outcome) { return shows(outcome, *scope); });
}

std::vector<Place> draw_outcomes(const Task& task, const Variant& variant, const Facts& here,
                                 std::span<const Workload> near, std::vector<Outcome>& unreached,
                                 std::uint64_t seed, const std::function<bool(const Place&)>& usable) {
  if (unreached.empty()) return {};
  RandomStream stream = stream_of(seed, "outcomes", 0);
  std::vector<std::vector<Place>> found(unreached.size());
  std::size_t looks = 0, last = 0;
  const auto look = [&](const Workload& shape) {
    ++looks;
    const Place place{shape, below(stream, 2) == 0 ? 0 : derive_seed(seed, "machine", stream())};
    const auto scope = scope_of(variant, task, shape, facts_of(variant, here, place.machine));
    std::optional<bool> legal;
    bool open = false;
    for (std::size_t i = 0; scope && i < unreached.size(); ++i) {
      if (found[i].size() < kCandidates && shows(unreached[i], *scope)) {
        if (!legal) legal = usable(place);
        if (*legal) found[i].push_back(place), last = looks;
      }
      open = open || found[i].size() < kCandidates;
    }
    return open && looks - last < kFruitless;
  };
  for (const Workload& shape : near) look(shape);
  const std::vector<double> numbers = numbers_in(variant, unreached);
  std::vector<ShapeLimits> sizes{kMediumShapes, kLargestShapes};
  if (!variant.manifest.target->on_host) sizes.push_back(kDeviceShapes);
  for (const ShapeLimits& limits : sizes) {
    if (std::ranges::none_of(found, [](const auto& places) { return places.empty(); })) break;
    last = looks;
    draw_anywhere(task, variant, near, limits, numbers, false, kAnywhere, derive_seed(seed, "anywhere"),
                  look);
  }
  std::vector<Place> all;
  std::vector<Outcome> left;
  for (std::size_t i = 0; i < unreached.size(); ++i) {
    std::vector<Place>& places = found[i];
    if (places.size() > kOutcomePlaces) {
      // Of the smaller half, which are distinct in more than what the smallest ones have in common.
      std::ranges::sort(places, {}, [&](const Place& place) { return task.flops(place.shape); });
      places.resize(std::max(kOutcomePlaces, places.size() / 2));
      for (std::size_t n = 0; n < kOutcomePlaces; ++n)
        std::swap(places[n], places[n + below(stream, places.size() - n)]);
      places.resize(kOutcomePlaces);
    }
    for (std::size_t n = kAsDrawn; n < places.size(); ++n)
      places[n] = with_other_remainders(places[n], n, unreached[i], variant, task, here,
                                        derive_seed(seed, "remainders", i), usable);
    if (places.empty()) left.push_back(std::move(unreached[i]));
    std::ranges::move(places, std::back_inserter(all));
  }
  unreached = std::move(left);
  return all;
}

std::optional<OutcomeBeyond> claimed_beyond(const Task& task, const Variant& variant, const Facts& here,
                                            std::span<const Workload> near,
                                            std::span<const Outcome> unreached, std::uint64_t seed,
                                            const std::function<bool(const Place&)>& usable) {
  std::optional<OutcomeBeyond> beyond;
  if (unreached.empty()) return beyond;
  draw_anywhere(task, variant, near, kClaimed, numbers_in(variant, unreached), true, kAnywhere / 2, seed,
                [&](const Workload& shape) {
                  if (const auto scope = scope_of(variant, task, shape, here))
                    for (const Outcome& outcome : unreached)
                      if (!beyond && !outcome.operand && shows(outcome, *scope) && usable({shape}))
                        beyond = {outcome, shape};
                  return !beyond;
                });
  return beyond;
}

std::vector<Workload> draw_outcome_shapes(const Task& task, const Variant& variant,
                                          std::span<const Workload> reached, std::size_t count,
                                          std::uint64_t seed,
                                          const std::function<bool(const Workload&)>& usable) {
  std::vector<Outcome> unreached = outcomes_of(variant);
  const auto take = [&](const Workload& shape) {
    const Bindings scope = device_free_numbers(variant, task, shape);
    return std::erase_if(unreached, [&](const Outcome& outcome) { return shows(outcome, scope); }) > 0;
  };
  for (const Workload& shape : reached) take(shape);
  std::vector<Workload> drawn;
  for (const ShapeLimits& limits : {kMediumShapes, kLargestShapes})
    if (!unreached.empty() && drawn.size() < count)
      draw_anywhere(task, variant, reached, limits, numbers_in(variant, unreached), false, kAnywhere, seed,
                    [&](const Workload& shape) {
                      if (usable(shape) && take(shape)) drawn.push_back(shape);
                      return !unreached.empty() && drawn.size() < count;
                    });
  return drawn;
}

}  // namespace cultivar
