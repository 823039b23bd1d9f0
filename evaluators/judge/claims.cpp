// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "evaluators/expression/expression.hpp"
#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {
namespace {

// On each side of a shape that is not claimed: few are looked at first, and many if the variant claims so
// large a share of these. Mostly none is claimed, as with another dtype, which eight show. The share of the
// second look is less than the half that counts, of which 24 would miss one of ten with a true share of 0.6.
struct Look {
  int shapes;
  double share;  // of the legal ones
};
constexpr Look kLooks[] = {{8, 1e-9}, {24, 1.0 / 3.0}, {200, 0.5}};
constexpr int kLeastNeighbours = 3;

// Which shapes lie beside another in one dimension.
struct Reach {
  bool above;
  double factor;  // up to so many times the value, or down to the value divided by it
};

// How far the shape numbered `i` of `most` is from the value, in steps of `unit`. Near shapes are spread
// evenly, distant ones over the orders of magnitude.
double steps_to(const Reach& side, double value, double unit, int i, int most, RandomStream& stream) {
  const double room = side.above ? value * (side.factor - 1.0) : value * (1.0 - 1.0 / side.factor);
  if (side.factor > 2.0) {
    const double scale = std::pow(side.factor, uniform(stream));
    return std::max(1.0,
                    std::round((side.above ? value * (scale - 1.0) : value * (1.0 - 1.0 / scale)) / unit));
  }
  const double steps = std::min(1e6, std::max(4.0, std::ceil(room / unit) - 1.0));
  if (steps <= most) return i <= steps ? i : 0.0;
  return 1.0 + static_cast<double>(below(stream, static_cast<std::size_t>(steps)));
}

// Whether the variant claims at least this share of the shapes that differ from this one in one dimension or
// amount, on one side. Whole numbers are divisible by the same power of two and by no greater one, so that a
// claim of multiples of 8 does not look like one of half of them; for a power that is large against the
// value, they are multiples of one that is not.
bool claims_beside(const Task& task, const Variant& variant, const Workload& shape, const std::string& name,
                   bool whole_numbers, const Reach& side, const Look& look, RandomStream& stream) {
  const double value = shape.values.at(name);
  const auto whole = static_cast<std::uint64_t>(value);
  const int twos = std::countr_zero(whole), bits = static_cast<int>(std::bit_width(whole));
  const double unit = std::exp2(twos == 0 || twos <= bits - 4 ? twos + 1 : std::max(0, bits - 4));
  int legal = 0, claimed = 0;
  for (int i = 1; i <= look.shapes; ++i) {
    double other = 0.0;
    if (whole_numbers) {
      const double step = steps_to(side, value, unit, i, look.shapes, stream);
      if (step == 0.0) break;
      other = side.above ? value + unit * step : value - unit * step;
      if (other < 1) continue;
    } else {
      const double scale = std::pow(side.factor, 1.0 - uniform(stream));
      other = round_to(Dtype::f32, side.above ? value * scale : value / scale);
    }
    Bindings next = given_values(task, shape);
    next[name] = other;
    const Expected<Workload> beside = make_workload(task, std::move(next), shape.dtype, true);
    if (!beside) continue;
    ++legal;
    claimed += claims(variant, task, *beside);
  }
  return legal >= kLeastNeighbours && claimed >= look.share * legal;
}

// True if the variant claims most of the shapes both below and above this one in one dimension or amount.
bool claims_its_surroundings(const Task& task, const Variant& variant, const Workload& shape,
                             const std::string& name, bool whole_numbers, double factor,
                             RandomStream& stream) {
  for (const Look& look : kLooks)
    for (const bool above : {false, true})
      if (!claims_beside(task, variant, shape, name, whole_numbers, {above, factor}, look, stream))
        return false;
  return true;
}

// All groups of alternatives, from the outermost in.
void alternatives_in(std::string_view text, Span part, std::vector<std::vector<Span>>& groups) {
  const std::vector<Span> alternatives = split(text, part, "||");
  if (alternatives.size() > 1) groups.push_back(alternatives);
  for (const Span& alternative : alternatives)
    for (const Span& each : split(text, alternative, "&&")) {
      const Span inside = inside_parentheses(text, each);
      if (inside.begin != inside.end) alternatives_in(text, inside, groups);
    }
}

}  // namespace

std::vector<ClaimedAlternative> alternatives_beyond(const Task& task, const Variant& variant,
                                                    std::span<const Workload> shapes) {
  std::vector<ClaimedAlternative> beyond;
  if (!variant.manifest.requires_) return beyond;
  const std::string& text = variant.manifest.requires_->text();
  std::vector<std::vector<Span>> groups;
  alternatives_in(text, {0, text.size()}, groups);
  for (const std::vector<Span>& group : groups)
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::size_t begin = group.front().begin, end = group.back().end;
      const std::string before = text.substr(0, begin), after = text.substr(end);
      // A comma of a function's arguments, or the like, makes no expression.
      Expected<Expression> only =
          Expression::parse(before + text.substr(group[i].begin, group[i].end - group[i].begin) + after);
      if (!only) continue;
      ClaimedAlternative alternative{variant, {}, {}};
      alternative.only.manifest.requires_ = std::move(*only);
      if (std::ranges::any_of(shapes, [&](const Workload& w) { return claims(alternative.only, task, w); }))
        continue;
      const Span own = trimmed(text, group[i]);
      alternative.text = text.substr(own.begin, own.end - own.begin);
      // With the operator before it, or behind the first one.
      alternative.narrowed = i == 0 ? before + text.substr(trimmed(text, group[1]).begin)
                                    : text.substr(0, trimmed(text, group[i - 1]).end) + text.substr(own.end);
      beyond.push_back(std::move(alternative));
    }
  return beyond;
}

std::optional<Workload> singled_out(const Task& task, const Variant& variant,
                                    std::span<const Workload> listed, std::uint64_t seed) {
  if (!variant.manifest.requires_) return std::nullopt;
  RandomStream stream = stream_of(seed, "surroundings", 0);
  std::vector<Parameter> amounts;
  for (const Parameter& p : task.parameters)
    if (amounts_of(task, p)) amounts.push_back(p);
  for (const Workload& shape : listed) {
    if (claims(variant, task, shape)) continue;
    for (const double factor : {2.0, 16.0}) {
      for (const Dimension& d : task.dimensions)
        if (claims_its_surroundings(task, variant, shape, d.name, true, factor, stream)) return shape;
      const Bindings given = given_values(task, shape);
      for (const Parameter& p : amounts)
        if (const auto value = given.find(p.name); value != given.end() && value->second > 0)
          if (claims_its_surroundings(task, variant, shape, p.name, !is_floating(p.type), factor, stream))
            return shape;
    }
  }
  return std::nullopt;
}

std::optional<Evaluation> claim_trouble(const Task& task, const Variant& variant,
                                        const std::vector<Workload>& workloads, std::uint64_t seed) {
  if (!variant.manifest.requires_) return std::nullopt;
  const Expression& claim = *variant.manifest.requires_;
  const std::vector<Workload> listed = listed_shapes(task, variant.manifest.target);
  for (const auto* shapes : {&workloads, &listed})
    for (const Workload& w : *shapes)
      if (const auto value = claim.evaluate(task.bindings(w)); !value)
        return rejection(Stage::lint, "`requires` has no value on " + w.name,
                         fmt::format("{}\nIt must tell of every shape whether the kernel supports it.\n",
                                     value.error().message));
  for (const Workload& w : workloads)
    if (!claims(variant, task, w))
      return rejection(
          Stage::lint, "the variant does not claim " + w.name,
          fmt::format("`requires: \"{}\"` does not hold for the workload {}. A variant must claim every "
                      "workload of the search: widen `requires`.\n",
                      claim.text(), w.name));
  if (const auto shape = singled_out(task, variant, listed, seed))
    return rejection(
        Stage::lint, "`requires` singles out " + shape->name,
        fmt::format(
            "`requires: \"{}\"` excludes {}, which the task's checks or holdout list, but claims most of "
            "the shapes around it. It must describe what the kernel needs.\n",
            claim.text(), shape->name));
  return std::nullopt;
}

}  // namespace cultivar
