#include "evaluators/judge/drawn_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "evaluators/system/random.hpp"
#include "evaluators/task/make_workload.hpp"

namespace cultivar {
namespace {

constexpr int kProposals = 12;  // of one dimension
constexpr int kAttempts = 8;    // for one shape
constexpr int kHalvings = 48;   // of other dimensions, until one has room to be far beyond its listed values

double bytes_of(const Task& task, const Workload& workload) {
  double bytes = 0.0;
  for (const TensorSpec& tensor : task.tensors) bytes += static_cast<double>(task.bytes_of(tensor, workload));
  return bytes;
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
    for (const Parameter& p : task_.parameters) {
      if (below(stream_, 2) == 0) {
        const double now = current_.values.at(p.name);
        if (p.flag)
          changed |= take(p.name, 1.0 - now);
        else if (p.optional || !is_floating(p.type))
          changed |= take(p.name, one_listed(p.name, now));
        else
          changed |= take(p.name, round_to(p.type, now * std::exp2(2.0 * uniform(stream_) - 1.0)));
      }
      // An amount mostly gets a value of its own, but is off as often as in the lists.
      if (amounts_.contains(p.name) && given_values(task_, current_).contains(p.name) &&
          below(stream_, 4) != 0)
        changed |= take(p.name, amount(p));
    }
    if (!changed || listed()) return std::nullopt;
    return current_;
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
      default:
        return one_listed(name, now);
    }
  }

  // Between the least and the greatest amount; all orders of magnitude are equally probable.
  double amount(const Parameter& p) {
    const auto& [least, greatest] = amounts_.at(p.name);
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

// Those of which every output has a row for each value.
std::vector<std::pair<std::string, double>> far_dimensions(const Task& task) {
  std::vector<std::pair<std::string, double>> growing;
  for (const std::string& name : task.rows) {
    if (std::ranges::any_of(task.tensors, [&](const TensorSpec& tensor) {
          return tensor.role == Role::output && tensor.rows &&
                 std::ranges::find(*tensor.rows, name) == tensor.rows->end();
        }))
      continue;
    double greatest = 0.0;
    for_each_listed(task, [&](const Workload& w) { greatest = std::max(greatest, w.values.at(name)); });
    growing.emplace_back(name, greatest);
  }
  return growing;
}

std::optional<std::pair<double, double>> amounts_of(const Task& task, const Parameter& p) {
  if (p.flag || (is_floating(p.type) && !p.optional)) return std::nullopt;
  std::set<double> all, given;
  for_each_listed(task, [&](const Workload& w) {
    all.insert(w.values.at(p.name));
    if (given_values(task, w).contains(p.name)) given.insert(w.values.at(p.name));
  });
  const auto consecutive = [&] { return *all.rbegin() - *all.begin() < static_cast<double>(all.size()); };
  if (given.empty() || (!is_floating(p.type) && consecutive())) return std::nullopt;
  double least = *given.begin(), greatest = *given.rbegin();
  if (given.size() == 1)
    std::tie(least, greatest) = std::minmax({*given.begin() / 2.0, *given.begin() * 2.0});
  if (!is_floating(p.type)) least = std::ceil(least), greatest = std::floor(greatest);
  return std::pair{least, greatest};
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
