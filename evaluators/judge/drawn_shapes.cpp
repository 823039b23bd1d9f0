// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/drawn_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/source_numbers.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {
namespace {

constexpr int kProposals = 12;  // of one dimension
constexpr int kAttempts = 8;    // for one shape
constexpr int kHalvings = 48;   // of other dimensions, until one has room to be far beyond its listed values
constexpr int kFocusAttempts = 3;

double bytes_of(const Task& task, const Workload& workload) {
  double bytes = 0.0;
  for (const TensorSpec& tensor : task.tensors) bytes += static_cast<double>(task.bytes_of(tensor, workload));
  return bytes;
}

class ShapeDraw {
 public:
  ShapeDraw(const Task& task, const Variant& variant, const ShapeLimits& limits,
            const std::function<bool(const Workload&)>& usable, RandomStream& stream)
      : task_(task), variant_(variant), limits_(limits), usable_(usable), stream_(stream) {
    for (const Parameter& p : task.parameters)
      if (const auto amounts = amounts_of(task, p)) amounts_[p.name] = *amounts;
  }

  std::optional<Workload> near(const Workload& base) {
    given_ = given_values(task_, base);
    current_ = base;
    bool changed = false;
    std::vector<std::string> names;
    for (const Dimension& d : task_.dimensions) names.push_back(d.name);
    shuffle(names, stream_);
    for (const std::string& name : names) {
      // A value that follows from the others, such as that of the keys' length, mostly stays so.
      if (changed && below(stream_, given_.contains(name) ? 4 : 2) == 0) continue;
      for (int i = 0; i < kProposals; ++i)
        if (take(name, proposal(name))) {
          changed = true;
          break;
        }
    }
    changed |= draw_parameters();
    if (!changed || is_listed(task_, current_)) return std::nullopt;
    return current_;
  }

  std::optional<Workload> focused(const Workload& base, const Focus& focus) {
    given_ = given_values(task_, base);
    current_ = base;
    const bool relative = focus.relation != Focus::Relation::none;
    std::vector<std::string> others;
    for (const Dimension& d : task_.dimensions)
      if (d.name != focus.name && d.name != focus.of && d.name != focus.also) others.push_back(d.name);
    shuffle(others, stream_);
    for (const std::string& name : others)
      if (focus.others == Focus::Others::least)
        take_least(name);
      else if (focus.others == Focus::Others::two)
        take_multiple(name, 2);
      else if (focus.others == Focus::Others::small && below(stream_, 4) != 0)
        take_small(name);
    // The dimension that the focus refers to is of any size; it has its own default value otherwise.
    if (relative && focus.also != focus.of)
      for (int i = 0; i < kProposals && !take(focus.of, proposal(focus.of)); ++i) {
      }
    // Given from now on: a default would follow the dimension that moves.
    if (relative) given_[focus.of] = current_.values.at(focus.of);
    draw_parameters(focus.compared && focus.others != Focus::Others::least);
    const bool both = relative && focus.also == focus.of;
    if (!both && !focus.also.empty()) {
      // It may have no room before the other dimension leaves some.
      take(focus.name, 1.0);
      if (current_.values.at(focus.also) != focus.also_value && !take(focus.also, focus.also_value))
        return std::nullopt;
      given_[focus.also] = focus.also_value;
    }
    const auto wanted = [&] {
      return focus.relation == Focus::Relation::plus    ? current_.values.at(focus.of) + focus.value
             : focus.relation == Focus::Relation::times ? current_.values.at(focus.of) * focus.value
                                                        : focus.value;
    };
    for (int i = 0; i <= kHalvings; ++i) {
      if (both) {
        const double value = focus.relation == Focus::Relation::plus ? focus.also_value + focus.value
                                                                     : focus.also_value * focus.value;
        if (take(Bindings{{focus.of, focus.also_value}, {focus.name, value}})) return current_;
      } else if (current_.values.at(focus.name) == wanted() || take(focus.name, wanted())) {
        return current_;
      }
      // Others may be too large for it, or have a value that excludes it.
      const std::string& other = task_.dimensions[below(stream_, task_.dimensions.size())].name;
      if (other == focus.name || other == focus.also) continue;
      if (below(stream_, 2) == 0)
        take(other, std::max(1.0, std::round(current_.values.at(other) / 2.0)));
      else
        take_small(other);
    }
    return std::nullopt;
  }

  // Half of the dimensions small, which leaves room for the others, each of any size up to its greatest.
  Workload anywhere(const Workload& base, std::span<const double> numbers,
                    const std::map<std::string, double>& greatest) {
    given_ = given_values(task_, base);
    current_ = base;
    std::vector<std::string> names;
    for (const Dimension& d : task_.dimensions) names.push_back(d.name);
    shuffle(names, stream_);
    const auto large = std::partition(names.begin(), names.end(),
                                      [&](const std::string&) { return below(stream_, 2) == 0; });
    for (auto name = names.begin(); name != large; ++name) take_small(*name);
    draw_parameters(true);
    for (auto at = large; at != names.end(); ++at) {
      const std::string& name = *at;
      for (int i = 0; i < 3; ++i)
        if (const double value = of_any_size(names, numbers, greatest.at(name));
            value <= greatest.at(name) && take(name, value))
          break;
    }
    return current_;
  }

  // Near this shape, but with that one's values of these names.
  std::optional<Workload> alike(const Workload& base, const Workload& like,
                                const std::set<std::string, std::less<>>& names, bool varied) {
    Bindings next = given_values(task_, base);
    const Bindings other = given_values(task_, like);
    for (const std::string& name : names)
      if (const auto value = other.find(name); value != other.end())
        next[name] = value->second;
      else
        next.erase(name);
    Expected<Workload> made = make_workload(task_, next, like.dtype, true);
    if (!made || !claims(variant_, task_, *made) || !usable_(*made)) return std::nullopt;
    given_ = std::move(next);
    current_ = std::move(*made);
    if (varied)
      for (const Dimension& d : task_.dimensions)
        if (!names.contains(d.name) && below(stream_, 2) == 0) take(d.name, proposal(d.name));
    return current_;
  }

  // Halves dimensions as long as the shape is beyond the limits and stays usable.
  void reduce(Workload& shape) {
    for (int i = 0; i < kHalvings && too_large(shape); ++i) {
      const std::string& name = task_.dimensions[below(stream_, task_.dimensions.size())].name;
      Bindings next = given_values(task_, shape);
      next[name] = std::max(1.0, std::floor(shape.values.at(name) / 2.0));
      Expected<Workload> made = make_workload(task_, std::move(next), shape.dtype, true);
      if (made && claims(variant_, task_, *made) && usable_(*made)) shape = std::move(*made);
    }
  }

  std::optional<Workload> far(const Workload& base) {
    given_ = given_values(task_, base);
    current_ = base;
    const auto growing = far_dimensions(task_);
    if (growing.empty()) return std::nullopt;
    const auto& [name, listed] = growing[below(stream_, growing.size())];
    const double greatest = std::max(listed, current_.values.at(name));
    // Drawn once: of several, the smallest would have room first.
    const double value =
        std::max(greatest + 1.0, std::round(greatest * std::pow(kFarFactor, uniform(stream_))));
    for (int i = 0; i <= kHalvings; ++i) {
      const double unit =
          static_cast<double>(1ull << below(stream_, 9));  // tiles may require multiples of it
      for (const double whole : {value, std::ceil(value / unit) * unit})
        if (take(name, whole)) return current_;
      const std::string& other = task_.dimensions[below(stream_, task_.dimensions.size())].name;
      if (other != name) take(other, std::max(1.0, std::round(current_.values.at(other) / 2.0)));
    }
    return std::nullopt;
  }

 private:
  bool draw_parameters(bool all = false) {
    bool changed = false;
    for (const Parameter& p : task_.parameters) {
      if (all || below(stream_, 2) == 0) {
        const double now = current_.values.at(p.name);
        if (p.flag)
          changed |= take(p.name, 1.0 - now);
        else if (p.range && !is_floating(p.type))
          changed |= take(p.name, whole_number(p));
        else if (p.optional || !is_floating(p.type))
          changed |= take(p.name, one_listed(p.name, now));
        else
          changed |= take(p.name, number(p, now));
      }
      // An amount mostly gets a value of its own, but is off as often as in the lists.
      if (amounts_.contains(p.name) && given_values(task_, current_).contains(p.name) &&
          below(stream_, 4) != 0)
        changed |= take(p.name, amount(p));
    }
    return changed;
  }

  // Over the range that the task gives, all orders of magnitude equally often, with either sign if it has
  // both; otherwise within a factor of two of this value.
  double number(const Parameter& p, double now) {
    if (!p.range) return round_to(p.type, now * std::exp2(2.0 * uniform(stream_) - 1.0));
    const auto [least, greatest] = *p.range;
    if (below(stream_, 6) == 0) {
      const double ends[] = {least, greatest, std::clamp(0.0, least, greatest)};
      return round_to(p.type, ends[below(stream_, std::size(ends))]);
    }
    constexpr double kOrders = 0x1p-20;  // of the greatest value, where the range includes 0
    const bool negative = least < 0 && (greatest <= 0 || below(stream_, 2) == 0);
    const double most = negative ? -least : greatest,
                 fewest = least < 0 || least == 0 ? std::min(most, std::abs(now)) * 0x1p-4 : least,
                 low = std::max(fewest, most * kOrders);
    const double size = low * std::pow(most / low, uniform(stream_));
    return round_to(p.type, std::clamp(negative ? -size : size, least, greatest));
  }

  // Any of the range; half of them are near 0.
  double whole_number(const Parameter& p) {
    const auto [least, greatest] = *p.range;
    const double value =
        below(stream_, 2) == 0 ? static_cast<double>(below(stream_, 9)) - 4.0 : std::round(number(p, 1.0));
    return std::clamp(value, least, greatest);
  }

  // The smallest of a few values that is legal and claimed; tiles may require multiples.
  bool take_small(const std::string& name) {
    constexpr double kSmall[] = {1, 1, 1, 1, 2, 3, 5, 7};
    return take_multiple(name, kSmall[below(stream_, std::size(kSmall))]);
  }
  bool take_least(const std::string& name) { return take_multiple(name, 1); }
  bool take_multiple(const std::string& name, double small) {
    for (double unit = 1; unit <= 128; unit *= 2) {
      if (current_.values.at(name) == small * unit) return true;
      if (take(name, small * unit)) return true;
    }
    return false;
  }

  // Makes these values the shape's, if the shape is then legal, claimed, usable and within the limits.
  bool take(const std::string& name, double value) {
    return value != current_.values.at(name) && take(Bindings{{name, value}});
  }
  bool take(const Bindings& values) {
    Bindings next = given_;
    for (const auto& [name, value] : values) next[name] = value;
    Expected<Workload> made = make_workload(task_, next, current_.dtype, true);
    if (!made || !claims(variant_, task_, *made) || too_large(*made) || !usable_(*made)) return false;
    given_ = std::move(next);
    current_ = std::move(*made);
    return true;
  }

  bool too_large(const Workload& workload) const {
    return task_.flops(workload) > limits_.flops || bytes_of(task_, workload) > limits_.bytes;
  }

  double proposal(const std::string& name) {
    const double now = current_.values.at(name);
    const double spread = std::max(1.0, std::round(now * std::exp2(3.0 * uniform(stream_) - 2.0)));
    switch (below(stream_, 5)) {
      case 0:
        return spread;
      case 1: {  // a multiple of a power of two, as tiles require
        const double unit = static_cast<double>(1ull << (1 + below(stream_, 8)));
        return std::max(1.0, std::round(spread / unit)) * unit;
      }
      case 2:
        return std::max(1.0, now + static_cast<double>(below(stream_, 19)) - 9.0);
      case 3:
        return 1.0 + static_cast<double>(below(stream_, 16));
      default:
        return one_listed(name, now);
    }
  }

  double of_any_size(const std::vector<std::string>& names, std::span<const double> numbers,
                     double greatest) {
    const std::size_t kind = below(stream_, numbers.empty() ? 3 : 5);
    if (kind == 0)
      return current_.values.at(names[below(stream_, names.size())]) *
             static_cast<double>(1 + below(stream_, 4));
    if (kind >= 3) {
      const double number = std::max(1.0, numbers[below(stream_, numbers.size())]);
      return kind == 3 ? std::max(1.0, number + static_cast<double>(below(stream_, 3)) - 1.0)
                       : number + std::floor(number * uniform(stream_));
    }
    // Tiles may require multiples of a power of two.
    const double unit = kind == 1 ? 1.0 : static_cast<double>(1ull << below(stream_, 9));
    return std::max(1.0, std::round(std::pow(greatest, uniform(stream_)) / unit)) * unit;
  }

  // Between the least and the greatest amount; all orders of magnitude are equally probable.
  double amount(const Parameter& p) {
    const auto& [least, greatest] = amounts_.at(p.name);
    // So much that it excludes nothing: whoever adds it to an index meets the end of the integers.
    if (p.type == Dtype::i32 && below(stream_, 8) == 0)
      return std::numeric_limits<std::int32_t>::max() - static_cast<double>(below(stream_, 2));
    const double share = uniform(stream_);
    const double value =
        least > 0 ? least * std::pow(greatest / least, share) : least + share * (greatest - least);
    return round_to(p.type, std::clamp(is_floating(p.type) ? value : std::round(value), least, greatest));
  }

  // A value that a file gives, other than this one if there is any.
  double one_listed(const std::string& name, double now) {
    std::vector<double> values;
    for_each_listed(task_, [&](const Workload& w) {
      if (w.values.at(name) != now) values.push_back(w.values.at(name));
    });
    return values.empty() ? now : values[below(stream_, values.size())];
  }

  const Task& task_;
  const Variant& variant_;
  const ShapeLimits& limits_;
  const std::function<bool(const Workload&)>& usable_;
  RandomStream& stream_;
  std::map<std::string, std::pair<double, double>> amounts_;
  Bindings given_;
  Workload current_;
};

}  // namespace

ShapeLimits limits_of(const Task& task, std::span<const Workload> workloads, double factor) {
  ShapeLimits limits;
  for (const Workload& w : workloads) {
    limits.flops = std::max(limits.flops, factor * task.flops(w));
    limits.bytes = std::max(limits.bytes, factor * bytes_of(task, w));
  }
  return limits;
}

bool is_listed(const Task& task, const Workload& workload) {
  bool found = false;
  for_each_listed(task, [&](const Workload& w) { found = found || w.values == workload.values; });
  return found;
}

std::vector<Workload> draw_shapes(const Task& task, const Variant& variant, std::span<const Workload> around,
                                  const ShapeLimits& limits, std::size_t count, std::uint64_t seed,
                                  const std::function<bool(const Workload&)>& usable) {
  RandomStream stream = stream_of(seed, "drawn shapes", 0);
  ShapeDraw draw(task, variant, limits, usable, stream);
  std::vector<Workload> drawn;
  for (std::size_t attempt = 0; drawn.size() < count && attempt < kAttempts * count; ++attempt) {
    if (around.empty()) break;
    std::optional<Workload> shape = draw.near(around[below(stream, around.size())]);
    if (shape && std::ranges::find(drawn, shape->name, &Workload::name) == drawn.end())
      drawn.push_back(std::move(*shape));
  }
  return drawn;
}

std::vector<Workload> draw_large_counts(const Task& task, const Variant& variant,
                                        std::span<const Workload> timed, std::uint64_t seed,
                                        const std::function<bool(const Workload&)>& usable) {
  constexpr double kLeast = 0x1p22, kMost = 0x1p28;
  constexpr std::size_t kCounts = 2;
  RandomStream stream = stream_of(seed, "large counts", 0);
  const SourceNumbers numbers = source_numbers(variant);
  std::vector<Workload> drawn;
  const auto growing = far_dimensions(task);
  if (growing.empty() || timed.empty()) return drawn;
  for (auto number = numbers.compared.rbegin(); number != numbers.compared.rend(); ++number) {
    const auto count = static_cast<double>(*number);
    if (count < kLeast || count > kMost || drawn.size() == kCounts) continue;
    Workload like = timed[below(stream, timed.size())];
    const std::string& name = growing[below(stream, growing.size())].first;
    double elements = 0.0;
    const TensorSpec* largest = nullptr;  // of those that grow with it
    for (const TensorSpec& tensor : task.tensors) {
      if (std::ranges::count(tensor.shape, name) == 0) continue;
      double own = 1.0;
      for (const std::int64_t extent : task.shape(tensor, like)) own *= static_cast<double>(extent);
      if (own > elements) elements = own, largest = &tensor;
    }
    if (largest == nullptr) continue;
    Bindings given = given_values(task, like);
    const double each = elements / like.values.at(name);  // elements for each index of this dimension
    given[name] = std::floor(count / each) + 1.0 + static_cast<double>(below(stream, 3));
    std::optional<Workload> shape;
    const auto take = [&](Bindings values) {
      const Expected<Workload> made = make_workload(task, std::move(values), like.dtype, true);
      const bool taken = made && claims(variant, task, *made) && usable(*made);
      if (taken) shape = *made;
      return taken;
    };
    // It may have to be a multiple of another dimension.
    for (int more = 0; more < kProposals && !take(given); ++more) given[name] += 1.0;
    // Work grows with the count. Dimensions that the largest tensor lacks, such as those that are summed
    // over, become short: a time-out would be no fault of the kernel.
    for (const Dimension& d : task.dimensions) {
      if (!shape || task.flops(*shape) <= kLargestShapes.flops) break;
      if (std::ranges::count(largest->shape, d.name) > 0) continue;
      // None of the others follows it.
      Bindings shorter = given_values(task, *shape);
      for (const Dimension& other : task.dimensions) shorter[other.name] = shape->values.at(other.name);
      for (double length = 1.0; length < shape->values.at(d.name); length *= 2.0) {
        shorter[d.name] = length;
        if (take(shorter)) break;
      }
    }
    if (shape && task.flops(*shape) <= kLargestShapes.flops) drawn.push_back(std::move(*shape));
  }
  return drawn;
}

std::vector<Workload> draw_focused_shapes(const Task& task, const Variant& variant,
                                          std::span<const Workload> around, const ShapeLimits& limits,
                                          std::span<const Focus> foci, std::size_t count, std::uint64_t seed,
                                          const std::function<bool(const Workload&)>& usable) {
  RandomStream stream = stream_of(seed, "focused shapes", 0);
  ShapeDraw draw(task, variant, limits, usable, stream);
  std::vector<Workload> drawn;
  std::set<std::string> names;
  if (around.empty()) return drawn;
  for (const Focus& focus : foci) {
    if (drawn.size() >= count) break;
    for (int i = 0; i < kFocusAttempts; ++i)
      if (auto shape = draw.focused(around[below(stream, around.size())], focus); shape && usable(*shape)) {
        if (names.insert(shape->name).second) drawn.push_back(std::move(*shape));
        break;
      }
  }
  return drawn;
}

void draw_anywhere(const Task& task, const Variant& variant, std::span<const Workload> around,
                   const ShapeLimits& limits, std::span<const double> numbers, bool anything,
                   std::size_t attempts, std::uint64_t seed,
                   const std::function<bool(const Workload&)>& use) {
  RandomStream stream = stream_of(seed, "shapes anywhere", 0);
  const std::function<bool(const Workload&)> every = [](const Workload&) { return true; };
  ShapeDraw draw(task, variant, limits, every, stream);
  std::map<std::string, double> greatest = longest_extents(task);
  if (anything)
    for (auto& [name, extent] : greatest) extent = 0x1p30;
  for (std::size_t i = 0; i < attempts && !around.empty(); ++i)
    if (!use(draw.anywhere(around[below(stream, around.size())], numbers, greatest))) return;
}

std::vector<Workload> draw_shapes_like(const Task& task, const Variant& variant,
                                       std::span<const Workload> around, const ShapeLimits& limits,
                                       const Workload& like, std::size_t count, std::uint64_t seed) {
  // Macros follow from what is specialized, and from what the specialized lets depend on.
  std::set<std::string, std::less<>> names;
  std::vector<std::string> open = variant.manifest.specialize;
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    if (!names.insert(name).second) continue;
    for (const auto* lets : {&variant.manifest.let, &task.let})
      for (const auto& [let, expression] : *lets)
        if (let == name) std::ranges::copy(expression.names(), std::back_inserter(open));
  }
  const std::vector<std::string> wanted = macros(variant, task, like);
  const std::function<bool(const Workload&)> usable = [&](const Workload& w) {
    return macros(variant, task, w) == wanted;
  };
  RandomStream stream = stream_of(seed, "shapes alike", 0);
  ShapeDraw draw(task, variant, limits, usable, stream);
  std::vector<Workload> drawn;
  for (std::size_t attempt = 0; drawn.size() < count && attempt < kAttempts * count; ++attempt) {
    if (around.empty()) break;
    auto shape = draw.alike(around[below(stream, around.size())], like, names, attempt != 0);
    if (shape && std::ranges::find(drawn, shape->name, &Workload::name) == drawn.end())
      drawn.push_back(std::move(*shape));
  }
  if (drawn.empty()) drawn.push_back(like);
  for (Workload& shape : drawn) draw.reduce(shape);
  return drawn;
}

std::vector<Workload> draw_far_shapes(const Task& task, const Variant& variant,
                                      std::span<const Workload> around, const ShapeLimits& limits,
                                      std::size_t count, std::uint64_t seed,
                                      const std::function<bool(const Workload&)>& usable) {
  RandomStream stream = stream_of(seed, "far shapes", 0);
  ShapeDraw draw(task, variant, limits, usable, stream);
  std::vector<Workload> drawn;
  for (std::size_t attempt = 0; drawn.size() < count && attempt < kAttempts * count; ++attempt) {
    if (around.empty()) break;
    if (auto shape = draw.far(around[below(stream, around.size())])) drawn.push_back(std::move(*shape));
  }
  return drawn;
}

}  // namespace cultivar
