#include "evaluators/judge/drawn_shapes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "evaluators/system/random.hpp"
#include "evaluators/task/make_workload.hpp"

namespace cultivar {
namespace {

constexpr int kProposals = 12;  // of one dimension
constexpr int kAttempts = 8;    // for one shape
// On each side of a shape that is not claimed: few are looked at first, and many if most of these are
// claimed, because a claim of each third value looks like that by chance.
constexpr int kNeighbours[] = {24, 200}, kLeastNeighbours = 3;

double bytes_of(const Task& task, const Workload& workload) {
  double bytes = 0.0;
  for (const TensorSpec& tensor : task.tensors) bytes += static_cast<double>(task.bytes_of(tensor, workload));
  return bytes;
}

// The values of a workload that are not defaults.
Bindings given_values(const Task& task, const Workload& workload) {
  Bindings given = workload.values;
  const auto forget_default = [&](const std::string& name, const std::optional<Expression>& fallback) {
    if (!fallback) return;
    const Expected<double> usual = fallback->evaluate(workload.values);
    if (usual && *usual == workload.values.at(name)) given.erase(name);
  };
  for (const Dimension& d : task.dimensions) forget_default(d.name, d.fallback);
  for (const Parameter& p : task.parameters) forget_default(p.name, p.fallback);
  return given;
}

template <class Use>
void for_each_listed(const Task& task, const Use& use) {
  for (const auto* shapes : {&task.smoke, &task.sweep, &task.stress_shapes, &task.edge})
    for (const Workload& w : *shapes) use(w);
  for (const WorkloadSet& set : task.workload_sets)
    for (const Workload& w : set.workloads) use(w);
}

class ShapeDraw {
 public:
  ShapeDraw(const Task& task, const Variant& variant, const ShapeLimits& limits,
            const std::function<bool(const Workload&)>& usable, RandomStream& stream)
      : task_(task), variant_(variant), limits_(limits), usable_(usable), stream_(stream) {}

  std::optional<Workload> near(const Workload& base) {
    given_ = given_values(task_, base);
    current_ = base;
    bool changed = false;
    std::vector<std::string> names;
    for (const Dimension& d : task_.dimensions) names.push_back(d.name);
    for (std::size_t i = names.size(); i > 1; --i) std::swap(names[i - 1], names[below(stream_, i)]);
    for (const std::string& name : names) {
      // A value that follows from the others, such as that of the keys' length, mostly stays so.
      if (changed && below(stream_, given_.contains(name) ? 4 : 2) == 0) continue;
      for (int i = 0; i < kProposals; ++i)
        if (take(name, proposal(name))) {
          changed = true;
          break;
        }
    }
    for (const Parameter& p : task_.parameters)
      if (below(stream_, 2) == 0) {
        const double now = current_.values.at(p.name);
        if (p.flag)
          changed |= take(p.name, 1.0 - now);
        else if (is_floating(p.type))
          changed |= take(p.name, round_to(p.type, now * std::exp2(2.0 * uniform(stream_) - 1.0)));
      }
    if (!changed || listed()) return std::nullopt;
    return current_;
  }

 private:
  // Makes this value the shape's, if the shape is then legal, claimed, usable and within the limits.
  bool take(const std::string& name, double value) {
    if (value == current_.values.at(name)) return false;
    Bindings next = given_;
    next[name] = value;
    Expected<Workload> made = make_workload(task_, next, current_.dtype, true);
    if (!made || !claims(variant_, task_, *made) || task_.flops(*made) > limits_.flops ||
        bytes_of(task_, *made) > limits_.bytes || !usable_(*made))
      return false;
    given_ = std::move(next);
    current_ = std::move(*made);
    return true;
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
      default: {
        std::vector<double> values;
        for_each_listed(task_, [&](const Workload& w) { values.push_back(w.values.at(name)); });
        return values.empty() ? spread : values[below(stream_, values.size())];
      }
    }
  }

  bool listed() const {
    bool found = false;
    for_each_listed(task_, [&](const Workload& w) { found = found || w.values == current_.values; });
    return found;
  }

  const Task& task_;
  const Variant& variant_;
  const ShapeLimits& limits_;
  const std::function<bool(const Workload&)>& usable_;
  RandomStream& stream_;
  Bindings given_;
  Workload current_;
};

// Whether the variant claims at least half of the shapes that differ from this one in one dimension, on one
// side: by up to the value itself above and half of it below (at least four steps). The others are divisible
// by the same power of two and by no greater one, so that a claim of multiples of 8 does not look like one of
// half of them; for a power that is large against the value, they are multiples of one that is not.
bool claims_most_beside(const Task& task, const Variant& variant, const Workload& shape,
                        const std::string& dimension, bool above, int most, RandomStream& stream) {
  const double value = shape.values.at(dimension);
  const auto whole = static_cast<std::uint64_t>(value);
  const int twos = std::countr_zero(whole), bits = static_cast<int>(std::bit_width(whole));
  const double unit = std::exp2(twos == 0 || twos <= bits - 4 ? twos + 1 : std::max(0, bits - 4));
  const int steps =
      static_cast<int>(std::min(1e6, std::max(4.0, std::ceil(value / unit / (above ? 1.0 : 2.0)) - 1.0)));
  int legal = 0, claimed = 0;
  for (int i = 1; i <= std::min(steps, most); ++i) {
    const double step =
        steps <= most ? i : 1 + static_cast<int>(below(stream, static_cast<std::size_t>(steps)));
    const double other = above ? value + unit * step : value - unit * step;
    if (other < 1) break;
    Bindings next = given_values(task, shape);
    next[dimension] = other;
    const Expected<Workload> near = make_workload(task, std::move(next), shape.dtype, true);
    if (!near) continue;
    ++legal;
    claimed += claims(variant, task, *near);
  }
  return legal >= kLeastNeighbours && 2 * claimed >= legal;
}

// True if the variant claims most of the shapes both below and above this one in one dimension.
bool claims_its_surroundings(const Task& task, const Variant& variant, const Workload& shape,
                             const std::string& dimension, RandomStream& stream) {
  for (const int most : kNeighbours)
    for (const bool above : {false, true})
      if (!claims_most_beside(task, variant, shape, dimension, above, most, stream)) return false;
  return true;
}

}  // namespace

ShapeLimits limits_of(const Task& task, std::span<const Workload> workloads, double factor) {
  ShapeLimits limits;
  for (const Workload& w : workloads) {
    limits.flops = std::max(limits.flops, factor * task.flops(w));
    limits.bytes = std::max(limits.bytes, factor * bytes_of(task, w));
  }
  return limits;
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

std::optional<Workload> singled_out(const Task& task, const Variant& variant,
                                    std::span<const Workload> listed, std::uint64_t seed) {
  if (!variant.manifest.requires_) return std::nullopt;
  RandomStream stream = stream_of(seed, "surroundings", 0);
  for (const Workload& shape : listed) {
    if (claims(variant, task, shape)) continue;
    for (const Dimension& d : task.dimensions)
      if (claims_its_surroundings(task, variant, shape, d.name, stream)) return shape;
  }
  return std::nullopt;
}

}  // namespace cultivar
