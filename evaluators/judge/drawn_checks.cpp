// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/drawn_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>

#include "evaluators/judge/alternatives.hpp"
#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/claims.hpp"
#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/judge/memory_need.hpp"
#include "evaluators/judge/outcomes.hpp"
#include "evaluators/judge/shrinking.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/task/composition.hpp"

namespace cultivar {
namespace {

// A variant is rejected if more than one in kFewIllegal of the shapes that it claims is illegal; fewer than
// kLeastClaimed say nothing.
constexpr int kFewIllegal = 10, kLeastClaimed = 8;
// Shapes at a focus are small enough for hundreds of them to take seconds.
constexpr ShapeLimits kFocused{3e7, 0x1p22};
// Of one medium dimension, with few of all others.
constexpr ShapeLimits kFocusedSmall{2e7, 0x1p23};
// And those of which thousands do.
constexpr ShapeLimits kTiny{1e6, 0x1p17};
// In the longest, a dimension may have as many bytes as positions beyond 16 bits need.
constexpr ShapeLimits kLongest{2e8, 0x1p28};
// And two together.
constexpr ShapeLimits kFilled{2e8, 0x1p27};
// Tables barely longer than 16 bits tell.
constexpr ShapeLimits kTables{2e8, 0x1p26 * 1.25};
constexpr std::uint64_t kTableTurns = 4;
// From here on a dimension may need a medium size.
constexpr double kLargeFocus = 0x1p15;
constexpr std::size_t kFirstTurns = 6;  // of a shape at a number, before shapes elsewhere
// Kinds of values, of which one shape begins with others than the one before.
constexpr std::size_t kStartsApart = 5;
constexpr std::size_t kOutcomeShapes = 8;  // that show an outcome, or more are drawn for it
// Rows of at least so much of the longest, and how often each has values that show in long sums what is left
// out.
constexpr double kLong = 0.25;
constexpr std::uint64_t kLongTurns = 2, kWideTurns = 4;
// Shapes on which two tensors are composed together, before all others.
constexpr std::size_t kJointShapes = 8;
constexpr double kLeastJointFlops = 1e3;
constexpr std::size_t kMostDivisors = 96, kMostTables = 8;
constexpr std::size_t kFilledFirst = 2;  // pairs of dimensions, before wide rows
constexpr std::uint64_t kElsewhere = 4;  // one run of so many has the facts of another machine

// Of seven runs one has ordinary values, one those of a stress case, three are composed and two are mixed.
CheckValues drawn_values(const Task& task, const Workload& shape, std::uint64_t seed) {
  const std::uint64_t kind = derive_seed(seed, "values") % 7;
  CheckValues values{.mixed = kind == 2 || kind == 3, .composed = kind >= 4, .drawn_shape = true};
  if (kind != 1 || task.stress.empty()) return values;
  const StressCase& stress = task.stress[derive_seed(seed, "stress case") % task.stress.size()];
  if (applies(task, stress, shape)) values.stress = &stress;
  return values;
}

// Values of every kind for one shape, those first that most mistakes need. A special case of one number is
// met with a few draws only, and most mistakes show with one kind of values.
std::vector<CheckValues> all_values(const Task& task, const Workload& shape, std::uint64_t seed) {
  std::vector<CheckValues> all;
  const auto add = [&](CheckValues values) {
    values.drawn_shape = true;
    all.push_back(values);
  };
  std::vector<const StressCase*> cases;
  for (const StressCase& stress : task.stress)
    if (applies(task, stress, shape)) cases.push_back(&stress);
  std::mt19937_64 order(derive_seed(seed, "cases"));
  std::ranges::shuffle(cases, order);
  add({});
  for (int kind = 0; kind < kCompositionKinds; ++kind) {
    add({.composed = true, .kind = kind});
    if (kind % 5 == 4) add({.mixed = true});
    if (kind % 2 == 1 && !cases.empty()) {
      add({.stress = cases.back()});
      cases.pop_back();
    }
  }
  for (const StressCase* stress : cases) add({.stress = stress});
  return all;
}

// What one evaluation draws, and runs until something is wrong.
class DrawnChecks {
 public:
  DrawnChecks(Checker& checker, const Facts& facts, const Task& task, const Compiled& compiled,
              const std::vector<Workload>& timed, const FindShape& largest, bool confirming,
              std::uint64_t seed)
      : checker_(checker),
        facts_(facts),
        task_(task),
        compiled_(compiled),
        variant_(compiled.variant),
        timed_(timed),
        largest_(largest),
        confirming_(confirming),
        seed_(seed),
        around_(small_listed(task, compiled.variant)),
        foci_(foci_of(task, compiled.variant, derive_seed(seed, "foci"))) {}

  // A rejection without a run: what the variant claims and no check reaches.
  std::optional<Evaluation> draw() {
    draw_scattered();
    if (claimed_ >= kLeastClaimed && kFewIllegal * illegal_ > claimed_)
      return rejection(
          Stage::lint, "constraints exclude claimed shapes",
          fmt::format("Of {} shapes that `requires` claims, {} violate a constraint or have no legal plan. "
                      "Constraints are for tunables: narrow `requires` instead.\n",
                      claimed_, illegal_));
    if (!confirming_) return std::nullopt;
    const auto listed = [&](const Workload& w) { return is_listed(task_, w); };
    if (std::ranges::all_of(scattered_, listed) && std::ranges::all_of(exactly_, listed))
      return rejection(
          Stage::lint, "the variant claims only shapes that the task lists",
          "No other shape was found on which it may run. `requires` must describe what the kernel "
          "needs, such as multiples of a tile, not which shapes it was tried on.\n");
    tabled_ = draw_focused_shapes(task_, variant_, around_, kMediumShapes,
                                  table_foci(task_, variant_, seed_for("tables")), counts().tabled,
                                  seed_for("tabled"), runs_);
    std::vector<Workload> reached;
    std::ranges::copy_if(every_claimed_shape(task_, variant_), std::back_inserter(reached), runs_);
    for (const auto* all : {&exactly_, &scattered_}) std::ranges::copy(*all, std::back_inserter(reached));
    if (auto beyond = draw_alternatives_of(reached)) return beyond;
    if (auto beyond = draw_decided(reached)) return beyond;
    const auto first_of_each = [&](const std::vector<std::vector<Focus>>& all, const ShapeLimits& limits,
                                   std::string_view purpose) {
      std::vector<Workload> drawn;
      for (std::size_t i = 0; i < all.size(); ++i)
        std::ranges::move(
            draw_focused_shapes(task_, variant_, around_, limits, all[i], 1, seed_for(purpose, i), runs_),
            std::back_inserter(drawn));
      return drawn;
    };
    for (Workload& shape :
         first_of_each(longest_foci(task_, variant_, seed_for("longest")), kLongest, "longest"))
      thorough_.push_back({std::move(shape)});
    filled_ = first_of_each(filled_foci(task_, seed_for("filled")), kFilled, "filled");
    divisors_ = draw_focused_shapes(task_, variant_, around_, kFocusedSmall,
                                    divisor_foci(task_, seed_for("divisors")), kMostDivisors,
                                    seed_for("divisor shapes"), runs_);
    tables_ = draw_focused_shapes(task_, variant_, around_, kTables,
                                  table_length_foci(task_, variant_, seed_for("table lengths")), kMostTables,
                                  seed_for("table length shapes"), runs_);
    wide_ = first_of_each(wide_foci(task_, seed_for("wide")), kLongest, "wide");
    return std::nullopt;
  }

  std::optional<Evaluation> run(const Announce& progress) {
    const std::vector<Phase> phases = in_phases();
    std::size_t done = 0, all = 0;
    for (const Phase& phase : phases) all += phase.runs.size();
    for (const Phase& phase : phases) {
      const Clock::time_point begin = Clock::now();
      for (const DrawnRun& run : phase.runs) {
        if (seconds_since(begin) >= phase.seconds) break;
        progress(
            {Stage::edge, {}, fmt::format("drawn run {} of at most {}: {}", ++done, all, run.shape.name)});
        auto wrong = checker_.check(Stage::edge, compiled_, run.shape, run.seed, run.values);
        // There any kernel may be too slow on a busy machine.
        if (wrong && wrong->late && phase.may_be_late) break;
        if (wrong) return shrunk(checker_, task_, compiled_, runs_, run, std::move(*wrong));
      }
    }
    return std::nullopt;
  }

 private:
  struct Phase {
    double seconds;
    std::vector<DrawnRun> runs;
    bool may_be_late = false;
  };

  const DrawnCounts& counts() const { return confirming_ ? kDrawnConfirming : kDrawnSearching; }
  std::uint64_t seed_for(std::string_view purpose, std::uint64_t index = 0) const {
    return derive_seed(seed_, purpose, index);
  }
  bool has_binary(const Workload& shape) const {
    return compiled_.binary(macros(variant_, task_, shape)) != nullptr;
  }
  bool runs_at(const Place& place) const {
    return has_binary(place.shape) &&
           is_legal(variant_, task_, place.shape, facts_of(variant_, facts_, place.machine));
  }

  // Near listed shapes, and at foci.
  void draw_scattered() {
    // A card's limits on a grid are no constraints that a kernel must name, so of shapes that are far from
    // the listed ones what is illegal does not count.
    const std::function<bool(const Workload&)> legal = [&](const Workload& shape) {
      if (!has_binary(shape)) return false;
      ++claimed_;
      const bool runs = is_legal(variant_, task_, shape, facts_);
      if (!runs) ++illegal_;
      return runs;
    };
    const auto add = [&](std::vector<Workload> shapes) {
      std::ranges::move(shapes, std::back_inserter(scattered_));
    };
    add(draw_shapes(task_, variant_, around_, limits_of(task_, around_, 1.0), counts().small,
                    seed_for("small"), legal));
    std::vector<Focus> exact, near, far;
    for (const Focus& focus : foci_)
      (focus.compared                                                          ? exact
       : focus.relation == Focus::Relation::none && focus.value >= kLargeFocus ? far
                                                                               : near)
          .push_back(focus);
    exactly_ = draw_focused_shapes(task_, variant_, around_, confirming_ ? kMediumShapes : kFocused, exact,
                                   counts().exactly, seed_for("exactly"), runs_);
    add(draw_focused_shapes(task_, variant_, around_, kFocused, near, counts().focused, seed_for("focused"),
                            runs_));
    if (confirming_) std::ranges::copy_if(compiled_.drawn, std::back_inserter(scattered_), legal);
    std::vector<Workload> large = timed_;
    std::mt19937_64 order(seed_for("order"));
    std::ranges::shuffle(large, order);
    for (std::size_t i = 0; i < std::min(counts().large, large.size()); ++i) {
      const std::span<const Workload> one = std::span(large).subspan(i, 1);
      add(draw_shapes(task_, variant_, one, limits_of(task_, one, 1.0), 1, seed_for("large", i), legal));
    }
    if (!confirming_) return;
    add(draw_focused_shapes(task_, variant_, around_, kMediumShapes, far, counts().medium, seed_for("medium"),
                            runs_));
    add(draw_far_shapes(task_, variant_, around_, limits_of(task_, timed_, 1.0), kDrawnFar, seed_for("far"),
                        runs_));
  }

  std::optional<Evaluation> draw_alternatives_of(std::vector<Workload> reached) {
    std::ranges::copy(timed_, std::back_inserter(reached));
    std::vector<ClaimedAlternative> unreached;
    for (Workload& shape :
         draw_alternatives(task_, variant_, reached, foci_, seed_for("alternatives"), runs_, &unreached))
      thorough_.push_back({std::move(shape)});
    if (unreached.empty()) return std::nullopt;
    return rejection(
        Stage::lint, fmt::format("`requires` claims what no check reaches: {}", unreached.front().text),
        fmt::format("`requires: \"{}\"` holds where {}, but of all shapes that are checked, listed or drawn, "
                    "none is such a one. Narrow it to \"{}\".\n",
                    variant_.manifest.requires_->text(), unreached.front().text, unreached.front().narrowed));
  }

  // `reached`: without the timed ones, which are multiples of everything, and say little of what else
  // happens.
  std::optional<Evaluation> draw_decided(std::vector<Workload> reached) {
    std::vector<Outcome> rare = outcomes_beyond(variant_, task_, facts_, reached, kOutcomeShapes);
    for (const auto* more : {&timed_, &compiled_.drawn})
      std::ranges::copy(*more, std::back_inserter(reached));
    const std::function<bool(const Place&)> usable = [&](const Place& place) { return runs_at(place); };
    decided_ =
        draw_outcomes(task_, variant_, facts_, reached, rare, seed_for("outcomes"), [&](const Place& place) {
          return runs_at(place) &&
                 !beyond_memory(task_, std::span(&place.shape, 1), variant_.manifest.target);
        });
    if (!rare.empty())
      if (const auto largest = largest_()) leave_out_shown(rare, variant_, task_, facts_, *largest);
    const auto beyond = claimed_beyond(task_, variant_, facts_, reached, rare, seed_for("beyond"), usable);
    if (!beyond) return std::nullopt;
    const std::string& condition = beyond->outcome.condition.text();
    return rejection(
        Stage::lint,
        fmt::format("{} depends on what no check reaches: {}{}", beyond->outcome.where,
                    beyond->outcome.holds ? "" : "not ", condition),
        fmt::format("On {}, which the variant claims, `{}` {}, but on no shape that is small enough to be "
                    "checked. Narrow `requires` so that it excludes such shapes, or leave the condition "
                    "out.\n",
                    beyond->shape.name, condition, beyond->outcome.holds ? "holds" : "does not hold"));
  }

  // All shapes with the first kind of values, then all with the next: where time ends, each has had some.
  std::vector<std::vector<DrawnRun>> in_turns(std::span<const Place> of, const std::string& purpose) const {
    std::vector<std::vector<DrawnRun>> turns;
    for (std::size_t i = 0; i < of.size(); ++i) {
      const std::uint64_t own = seed_for(purpose + " values", i);
      const Workload& shape = of[i].shape;
      // The largest have values that a device keeps.
      const bool large = limits_of(task_, std::span(&shape, 1), 1.0).bytes > kLargestShapes.bytes;
      auto values = large         ? std::vector{CheckValues{.drawn_shape = true}}
                    : confirming_ ? all_values(task_, shape, own)
                                  : std::vector{drawn_values(task_, shape, own)};
      // Several shapes together have soon had all kinds.
      std::rotate(values.begin(),
                  values.begin() + static_cast<std::ptrdiff_t>(i * kStartsApart % values.size()),
                  values.end());
      if (turns.size() < values.size()) turns.resize(values.size());
      for (std::size_t turn = 0; turn < values.size(); ++turn) {
        DrawnRun& run = turns[turn].emplace_back(
            DrawnRun{shape, values[turn], derive_seed(seed_for(purpose, i), "turn", turn)});
        run.values.machine = of[i].machine;
        // A plan may depend on the number of cores and on caches anywhere.
        if (confirming_ && run.values.machine == 0 && derive_seed(run.seed, "elsewhere") % kElsewhere == 0)
          if (const Place place{shape, derive_seed(run.seed, "machine")}; runs_at(place))
            run.values.machine = place.machine;
      }
    }
    return turns;
  }

  // Two tensors that only together show a mistake, on the smallest shapes near listed ones.
  void add_joint(Phase& to) const {
    std::vector<Workload> smallest = scattered_;
    std::ranges::stable_sort(smallest, {}, [&](const Workload& w) { return task_.flops(w); });
    std::erase_if(smallest, [&](const Workload& w) { return task_.flops(w) < kLeastJointFlops; });
    if (smallest.size() > kJointShapes) smallest.resize(kJointShapes);
    for (const int kind : kJointKinds)
      for (std::size_t i = 0; i < smallest.size(); ++i)
        to.runs.push_back({smallest[i],
                           {.composed = true, .kind = kind, .drawn_shape = true},
                           seed_for(fmt::format("joint {}", kind), i)});
  }

  std::vector<Phase> in_phases() const {
    Phase outcomes{kOutcomeSeconds, {}, true}, filled{kFilledSeconds, {}, true},
        longest{kLongestSeconds, {}, true}, first{kDrawnSeconds, {}}, later{kDrawnKindsSeconds, {}};
    const auto add_long = [&](Phase& to, const Workload& shape, int kind, std::uint64_t seed) {
      to.runs.push_back({shape, {.composed = true, .kind = kind, .drawn_shape = true}, seed});
    };
    const auto add_filled = [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < std::min(to, filled_.size()); ++i)
        filled.runs.push_back({filled_[i], {.drawn_shape = true}, seed_for("filled run", i)});
    };
    add_filled(0, kFilledFirst);
    for (std::uint64_t turn = 0; turn < kWideTurns; ++turn) {
      for (const int kind : kLongKinds)
        for (std::size_t i = 0; i < wide_.size(); ++i)
          add_long(filled, wide_[i], kind,
                   derive_seed(seed_for(fmt::format("wide {}", kind), i), "turn", turn));
      if (turn == 0) add_filled(kFilledFirst, filled_.size());
    }
    for (std::uint64_t turn = 0; turn < kTableTurns; ++turn)
      for (std::size_t i = 0; i < tables_.size(); ++i)
        longest.runs.push_back(
            {tables_[i], {.drawn_shape = true}, derive_seed(seed_for("table length run", i), "turn", turn)});
    std::map<std::string, double> lengths = longest_extents(task_);
    for (const std::string& row : task_.rows) lengths.erase(row);
    for (std::uint64_t turn = 0; turn < kLongTurns; ++turn)
      for (const int kind : kLongKinds)
        for (std::size_t i = 0; i < thorough_.size(); ++i)
          if (const Workload& shape = thorough_[i].shape; std::ranges::any_of(lengths, [&](const auto& each) {
                return shape.values.at(each.first) >= kLong * each.second;
              }))
            add_long(longest, shape, kind,
                     derive_seed(seed_for(fmt::format("long {}", kind), i), "turn", turn));
    for (const char* round : {"first round", "second round", "third round"}) {
      for (const auto& turn : in_turns(decided_, round))
        std::ranges::copy(turn, std::back_inserter(outcomes.runs));
      for (const auto& turn : in_turns(thorough_, round))
        std::ranges::copy(turn, std::back_inserter(longest.runs));
    }
    const auto add = [&](const Workload& shape, const CheckValues& values, std::string_view purpose) {
      first.runs.push_back({shape, values, seed_for(purpose, first.runs.size())});
    };
    if (confirming_)
      for (const Workload& shape : draw_large_counts(task_, variant_, timed_, seed_for("counts"), runs_))
        add(shape, {.drawn_shape = true}, "count");
    for (const Workload& shape : divisors_) add(shape, {.drawn_shape = true}, "divisor");
    if (confirming_) add_joint(first);
    std::vector<Place> at_numbers;
    for (const Workload& shape : exactly_) at_numbers.push_back({shape});
    const std::vector<std::vector<DrawnRun>> turns = in_turns(at_numbers, "exact");
    for (std::size_t turn = 0; turn < std::max<std::size_t>(1, turns.size()); ++turn) {
      if (turn < turns.size())
        std::ranges::copy(turns[turn], std::back_inserter((turn < kFirstTurns ? first : later).runs));
      if (turn > 0) continue;
      for (const Workload& shape : tabled_) add(shape, {.drawn_shape = true}, "table");
      for (const Workload& shape : scattered_)
        add(shape, drawn_values(task_, shape, seed_for("drawn", first.runs.size())), "drawn");
    }
    // Values that only together show a mistake are met by many draws: what time is left goes to small shapes.
    if (confirming_) {
      std::vector<Place> small;
      for (const Workload& shape : scattered_)
        if (const ShapeLimits own = limits_of(task_, std::span(&shape, 1), 1.0);
            own.flops <= kTiny.flops && own.bytes <= kTiny.bytes)
          small.push_back({shape});
      for (const auto& turn : in_turns(small, "kinds"))
        std::ranges::copy(turn, std::back_inserter(later.runs));
    }
    return {std::move(outcomes), std::move(filled), std::move(longest), std::move(first), std::move(later)};
  }

  Checker& checker_;
  const Facts& facts_;
  const Task& task_;
  const Compiled& compiled_;
  const Variant& variant_;
  const std::vector<Workload>& timed_;
  const FindShape& largest_;
  const bool confirming_;
  const std::uint64_t seed_;
  const std::vector<Workload> around_;  // small listed shapes
  const std::vector<Focus> foci_;
  const std::function<bool(const Workload&)> runs_ = [this](const Workload& shape) {
    return runs_at({shape});
  };
  int claimed_ = 0, illegal_ = 0;
  std::vector<Workload> scattered_, exactly_,
      tabled_;                           // anywhere; at a number of the source; at a table's row
  std::vector<Workload> filled_, wide_;  // of two large dimensions; of long rows
  std::vector<Workload> divisors_,
      tables_;  // of one medium dimension, beside few of all others; of long tables
  std::vector<Place> decided_, thorough_;  // with values of every kind
};

}  // namespace

std::optional<Evaluation> check_drawn_shapes(Checker& checker, const Facts& facts, const Task& task,
                                             const Compiled& compiled, const std::vector<Workload>& timed,
                                             const FindShape& largest, bool confirming, std::uint64_t seed,
                                             const Announce& progress) {
  DrawnChecks checks(checker, facts, task, compiled, timed, largest, confirming, seed);
  if (auto refused = checks.draw()) return refused;
  return checks.run(progress);
}

}  // namespace cultivar
