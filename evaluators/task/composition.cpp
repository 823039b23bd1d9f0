// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/composition.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

enum class Change {
  outliers,
  scale,
  scale_up,
  scale_down,
  mirror,
  shift,
  calm,
  late,
  magnitudes,
  ties,
  low_rows,
  rising,
  alternating,
  sparse,
  tiny,
  small,
  gap,
  front,
  // Of two tensors; see compose_together and compose_opposed.
  together,
  opposed
};
// Those that mistakes most often depend on are listed more than once.
constexpr Change kChanges[] = {Change::outliers,   Change::outliers, Change::shift,       Change::shift,
                               Change::shift,      Change::scale,    Change::scale,       Change::mirror,
                               Change::calm,       Change::late,     Change::ties,        Change::low_rows,
                               Change::magnitudes, Change::rising,   Change::alternating, Change::sparse,
                               Change::tiny,       Change::small,    Change::gap,         Change::front};
// Each once, or those that are up or down both ways, in the order in which turns take them.
constexpr Change kKinds[] = {Change::shift,       Change::scale_up, Change::outliers, Change::scale_down,
                             Change::late,        Change::low_rows, Change::rising,   Change::magnitudes,
                             Change::mirror,      Change::ties,     Change::shift,    Change::calm,
                             Change::alternating, Change::sparse,   Change::tiny,     Change::small,
                             Change::gap,         Change::front,    Change::together, Change::opposed};
static_assert(std::size(kKinds) == kCompositionKinds);
static_assert(kKinds[kLongKinds[0]] == Change::gap && kKinds[kLongKinds[1]] == Change::front);
static_assert(kKinds[kJointKinds[0]] == Change::together && kKinds[kJointKinds[1]] == Change::opposed);
// Values of a uniform fill must stay in its range.
constexpr Change kBounded[] = {Change::calm, Change::ties};

constexpr std::size_t kMostChanges = 3;
constexpr std::uint64_t kJoint = 6;  // one composition of so many changes two tensors together
// The greatest powers of two by which values are changed, by strength.
constexpr double kPowers[kMostStrength + 1] = {1.0, 7.0, 20.0, 60.0};

double largest(Dtype dtype) {
  return dtype == Dtype::f16    ? 0x1p15
         : dtype == Dtype::f64  ? 0x1p1000
         : dtype == Dtype::e4m3 ? 256.0
                                : 0x1.8p127;
}
double smallest(Dtype dtype) {  // normal
  return dtype == Dtype::f16 ? 0x1p-14 : dtype == Dtype::f64 ? 0x1p-1000 : 0x1p-126;
}

// One tensor's values while they are composed.
class Composer {
 public:
  Composer(std::vector<std::int64_t> shape, Dtype dtype, const Fill& fill, int strength, int headroom,
           std::span<const double> thresholds, RandomStream& stream)
      : shape_(std::move(shape)),
        dtype_(dtype),
        bounded_(fill.kind == Fill::Kind::uniform),
        low_(fill.a),
        deviation_(fill.kind == Fill::Kind::normal ? fill.b : fill.a),
        powers_(std::min(kPowers[strength], std::log2(largest(dtype)) / 2.0)),
        headroom_(headroom),
        thresholds_(thresholds),
        stream_(stream) {
    if (!(deviation_ > 0)) deviation_ = 1.0;
  }

  // `large`: whether values may grow; a product of several large tensors would overflow.
  std::string change(std::span<double> values, bool large, std::optional<Change> first = {}) {
    values_ = values;
    if (first && !bounded_)
      if (std::string done = apply(*first, large); !done.empty()) return done;
    for (int attempt = 0; attempt < 8; ++attempt) {
      const Change chosen = bounded_ ? kBounded[below(stream_, std::size(kBounded))]
                                     : kChanges[below(stream_, std::size(kChanges))];
      if (std::string done = apply(chosen, large); !done.empty()) return done;
    }
    return {};
  }

  void clamp(std::span<double> values) const {
    const double most = largest(dtype_);
    for (double& value : values) value = std::clamp(value, -most, most);
  }

  bool bounded() const { return bounded_; }
  std::size_t draw_index(std::size_t axis) { return draw_place(static_cast<std::size_t>(shape_[axis])); }
  // What these indices of an axis are of becomes large, as far as an exponential of it may be nothing.
  std::string exceed(std::span<double> values, std::size_t number, const std::set<std::size_t>& indices) {
    values_ = values;
    const double usual = deviation_ * std::exp2(6.5) * size(5.5);
    const double value =
        (below(stream_, 3) == 0 ? 1.0 : -1.0) * grown(below(stream_, 4) == 0 ? near_threshold(usual) : usual);
    const bool equal = below(stream_, 4) != 0;
    at(number, indices, [&](double x) { return equal ? value : x / deviation_ * value; });
    return fmt::format("{} {:.3g}", equal ? "is" : "times", value);
  }
  // And what they are of here, as large as the strength permits, or little less than the dtype.
  std::string grow(std::span<double> values, std::size_t number, const std::set<std::size_t>& indices) {
    values_ = values;
    const double most = std::log2(largest(dtype_)), reserve = std::min(9.0, most / 6.0);
    const double power = below(stream_, 8) != 0 ? most - reserve - 3.0 * uniform(stream_)
                                                : powers_ * (0.5 + 0.5 * uniform(stream_));
    const double factor = grown(std::exp2(power));
    at(number, indices, [&](double x) { return x * factor; });
    return fmt::format("times {:.3g}", factor);
  }
  void of_one_sign(std::span<double> values) {
    for (double& value : values) value = std::abs(value);
  }
  double small_factor() { return near_threshold(deviation_ / size(40.0)) / deviation_; }
  std::string times(std::span<double> values, double factor) {
    for (double& value : values) value *= factor;
    return fmt::format("times {:.3g}", factor);
  }

 private:
  template <class Value>
  void at(std::size_t number, const std::set<std::size_t>& indices, const Value& value) {
    const Axis axis = axis_at(number);
    each([&](std::size_t i, double x) { return indices.contains(axis.along(i)) ? value(x) : x; });
  }
  double size(double most) { return std::exp2(most * uniform(stream_)); }
  double grown(double value) const { return value * std::exp2(headroom_); }
  // This size, or in half of the cases, if there are thresholds, from half of one to twice it, mostly a
  // little above it.
  double near_threshold(double usual) {
    if (thresholds_.empty() || below(stream_, 2) == 0) return usual;
    double threshold = thresholds_[below(stream_, thresholds_.size())];
    if (below(stream_, 4) == 0) threshold = std::sqrt(threshold);  // what is compared may be a square
    return threshold *
           std::exp2(below(stream_, 2) == 0 ? 0.25 * uniform(stream_) : 2.0 * uniform(stream_) - 1.0);
  }
  // This size, or in two of three cases, if there are thresholds, one of them and up to a sixteenth more.
  double barely_beyond(double usual) {
    if (thresholds_.empty() || below(stream_, 3) == 0) return usual;
    return thresholds_[below(stream_, thresholds_.size())] * (1.0 + 0x1p-4 * uniform(stream_));
  }
  double sign() { return below(stream_, 2) == 0 ? 1.0 : -1.0; }

  // What an index along an axis is of.
  struct Axis {
    std::size_t number = 0, extent = 1, stride = 1;
    std::size_t along(std::size_t i) const { return i / stride % extent; }
    std::size_t first(std::size_t line) const { return line / stride * stride * extent + line % stride; }
  };
  Axis axis_at(std::size_t number) const {
    Axis axis{number, static_cast<std::size_t>(shape_[number])};
    for (std::size_t i = number + 1; i < shape_.size(); ++i)
      axis.stride *= static_cast<std::size_t>(shape_[i]);
    return axis;
  }
  // A long one if there is any.
  Axis draw_axis() {
    std::size_t number = below(stream_, shape_.size());
    for (int i = 0; i < 4 && shape_[number] < 4; ++i) number = below(stream_, shape_.size());
    return axis_at(number);
  }

  // Less than the extent; every order of magnitude is equally probable.
  std::size_t near_end(std::size_t extent) {
    const double distance = std::exp2(uniform(stream_) * std::log2(static_cast<double>(extent) + 1.0)) - 1.0;
    return std::min(extent - 1, static_cast<std::size_t>(distance));
  }
  // Anywhere, or near an end, where the last tile lies, or the first or the last of all, which a kernel may
  // take as a reference for the others.
  std::size_t draw_place(std::size_t extent) {
    switch (below(stream_, 6)) {
      case 0:
        return near_end(extent);
      case 1:
        return extent - 1 - near_end(extent);
      case 2:
        return 0;
      case 3:
        return extent - 1;
      default:
        return below(stream_, extent);
    }
  }

  template <class Value>
  void each(const Value& value) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = value(i, values_[i]);
  }

  std::string apply(Change change, bool large) {
    switch (change) {
      case Change::outliers: {
        if (!large) return {};
        const Axis axis = draw_axis();
        const double factor = 1.0 / size(8.0);
        each([&](std::size_t, double x) { return x * factor; });
        const std::size_t share = 1 + below(stream_, 4);
        const double value =
            grown(near_threshold(deviation_ * std::exp2(3.0) * size(std::max(7.0, powers_))));
        const std::size_t lines = values_.size() / axis.extent;
        for (std::size_t line = 0; line < lines; ++line) {
          const std::size_t place = draw_place(axis.extent);
          if (below(stream_, share) == 0)
            values_[axis.first(line) + place * axis.stride] = below(stream_, 4) == 0 ? -value : value;
        }
        return fmt::format("times {:.3g}, and {:.3g} or {:.3g} once in one of {} lines along axis {}", factor,
                           value, -value, share, axis.number);
      }
      case Change::scale:
        return apply(large && below(stream_, 2) == 0 ? Change::scale_up : Change::scale_down, large);
      case Change::scale_up:
      case Change::scale_down: {
        const bool up = change == Change::scale_up;
        if (up && !large) return {};
        const double factor = up ? grown(size(powers_)) : 1.0 / size(powers_);
        each([&](std::size_t, double x) { return x * factor; });
        return fmt::format("times {:.3g}", factor);
      }
      case Change::mirror:
        each([](std::size_t, double x) { return -x; });
        return "with the other sign";
      case Change::shift: {
        if (!large) return {};
        const double size_of_it =
            grown(near_threshold(deviation_ * std::exp2(3.0) * size(std::min(powers_, 21.0))));
        const double by = below(stream_, 3) == 0 ? size_of_it : -size_of_it;
        each([&](std::size_t, double x) { return x + by; });
        return fmt::format("plus {:.3g}", by);
      }
      case Change::calm: {
        const Axis axis = draw_axis();
        if (axis.extent < 2) return {};
        const std::size_t end = 1 + below(stream_, axis.extent - 1);
        const double factor = 1.0 / size(std::min(powers_, 12.0)), low = bounded_ ? low_ : 0.0;
        each([&](std::size_t i, double x) { return axis.along(i) < end ? low + (x - low) * factor : x; });
        return fmt::format("times {:.3g} before index {} of axis {}", factor, end, axis.number);
      }
      case Change::late: {
        if (!large) return {};
        const std::size_t place = values_.size() - 1 - near_end(values_.size());
        const double value = sign() * grown(near_threshold(deviation_ * size(std::max(8.0, powers_))));
        values_[place] = value;
        return fmt::format("element {} is {:.3g}", place, value);
      }
      case Change::magnitudes: {
        const double most = large ? powers_ : 1.0;
        const double low = std::min(powers_, 40.0);
        each([&](std::size_t, double x) {
          const double power = -low + (low + most) * uniform(stream_);
          return std::copysign(
              power > 0 ? grown(deviation_ * std::exp2(power)) : deviation_ * std::exp2(power), x);
        });
        return fmt::format("of magnitudes from 2^{:.0f} to 2^{:.0f}", -low, most + headroom_);
      }
      case Change::ties: {
        if (alternates_) return {};
        const double step = bounded_ ? deviation_ / 4.0 : deviation_ * (below(stream_, 2) == 0 ? 1.0 : 2.0);
        const double low = bounded_ ? low_ : 0.0;
        each([&](std::size_t, double x) { return low + std::trunc((x - low) / step) * step; });
        return fmt::format("rounded to multiples of {:.3g}", step);
      }
      case Change::low_rows: {
        if (!large) return {};
        const Axis axis = draw_axis();
        const double by = -grown(near_threshold(deviation_ * size(std::min(powers_, 24.0))));
        const std::uint64_t chosen = stream_();
        each([&](std::size_t i, double x) { return (chosen >> (axis.along(i) % 61)) & 1U ? x + by : x; });
        return fmt::format("plus {:.3g} at some indices of axis {}", by, axis.number);
      }
      case Change::rising: {
        if (!large) return {};
        const Axis axis = draw_axis();
        if (axis.extent < 2) return {};
        // Half of them rise by no more than an exponential of the whole bears without a rescale, or little
        // more.
        constexpr double kModest = 256.0;
        const double by =
            sign() * (below(stream_, 2) == 0 ? near_threshold(deviation_ * kModest * uniform(stream_))
                                             : grown(deviation_ * size(std::min(powers_, 24.0))));
        each([&](std::size_t i, double x) {
          return x + by * static_cast<double>(axis.along(i)) / static_cast<double>(axis.extent);
        });
        return fmt::format("plus up to {:.3g} along axis {}", by, axis.number);
      }
      case Change::alternating:
        // Of magnitudes that differ: where equal values cancel exactly, the exact sum is 0 and no rounding is
        // permitted.
        each([&](std::size_t i, double x) {
          const double size = (std::abs(x) + deviation_ / 4.0) * (1.0 + uniform(stream_));
          return i % 2 == 0 ? size : -size;
        });
        alternates_ = true;
        return "of alternating signs";
      case Change::sparse: {
        const std::size_t keep = 2 + below(stream_, 62);
        each([&](std::size_t, double x) { return below(stream_, keep) == 0 ? x : 0.0; });
        return fmt::format("0 but for one in {}", keep);
      }
      case Change::tiny: {
        const double factor = smallest(dtype_) * size(8.0);
        each([&](std::size_t, double x) { return x * factor; });
        return fmt::format("times {:.3g}", factor);
      }
      case Change::small: {
        const double factor = near_threshold(deviation_ / (16.0 * size(16.0))) / deviation_;
        each([&](std::size_t, double x) { return x * factor; });
        return fmt::format("times {:.3g}", factor);
      }
      // Many values whose exponentials are tiny beside that of one, but not their sum.
      case Change::gap: {
        if (!large) return {};
        const Axis axis = draw_axis();
        constexpr double kMost = 40.0, kSpread = 0x1p-4, kVisible = 10.0;
        // Of so many exponentials the sum weighs as much as that of the one, or down to e^-10 of it.
        const double usual = below(stream_, 2) == 0
                                 ? std::log(static_cast<double>(axis.extent)) + kVisible * uniform(stream_)
                                 : deviation_ * kMost * uniform(stream_);
        const double by = barely_beyond(usual);
        const bool late = below(stream_, 4) != 0;  // where a sum in order already has all the others
        each([&](std::size_t, double x) { return x * kSpread; });
        for (std::size_t line = 0; line < values_.size() / axis.extent; ++line)
          values_[axis.first(line) + (late ? axis.extent - 1 : draw_place(axis.extent)) * axis.stride] += by;
        return fmt::format("times {:.3g}, and plus {:.3g} once in each line along axis {}", kSpread, by,
                           axis.number);
      }
      // What the first elements say of the others is wrong.
      case Change::front: {
        if (!large) return {};
        const Axis axis = draw_axis();
        if (axis.extent < 2) return {};
        const std::size_t first =
            below(stream_, 2) == 0 ? near_end(axis.extent) + 1 : std::size_t{1} << below(stream_, 7);
        const std::size_t end = std::min(axis.extent - 1, first);
        const double factor = 1.0 / size(8.0),
                     by = sign() *
                          grown(near_threshold(deviation_ * std::exp2(3.0) * size(std::min(powers_, 12.0))));
        each([&](std::size_t i, double x) { return axis.along(i) < end ? x + by : x * factor; });
        return fmt::format("plus {:.3g} before index {} of axis {}, and times {:.3g} from there on", by, end,
                           axis.number, factor);
      }
      case Change::together:
      case Change::opposed:
        break;
    }
    return {};
  }

  std::vector<std::int64_t> shape_;
  Dtype dtype_;
  bool bounded_;
  double low_, deviation_, powers_;
  int headroom_;
  std::span<const double> thresholds_;
  RandomStream& stream_;
  bool alternates_ = false;
  std::span<double> values_;
};

bool composed(const Fill& fill) {
  return fill.kind == Fill::Kind::normal || fill.kind == Fill::Kind::spread ||
         fill.kind == Fill::Kind::uniform;
}

struct ComposedTensor {
  const TensorSpec* spec;
  std::vector<std::byte>* bytes;
  Dtype dtype;
  Composer composer;

  // Lets `alter` have the values and stores them; returns its words with the tensor's name.
  template <class Alter>
  std::string with_values(const Alter& alter) {
    std::vector<double> values(bytes->size() / size_of(dtype));
    decode(dtype, *bytes, values);
    const std::string words = alter(std::span<double>(values));
    if (words.empty()) return {};
    composer.clamp(values);
    encode(dtype, values, *bytes);
    return fmt::format("{} {}\n", spec->name, words);
  }
};

// Half of the time the tensor of the most dimensions: outputs sum over it.
std::size_t choose(std::span<const ComposedTensor> tensors, RandomStream& stream) {
  if (below(stream, 2) == 0) return below(stream, tensors.size());
  return static_cast<std::size_t>(
      std::ranges::max_element(tensors, {}, [](const auto& each) { return each.spec->shape.size(); }) -
      tensors.begin());
}

// Two tensors are extreme at the same indices of a dimension that both have, mostly a long one: what the one
// makes nothing is not nothing times the other. Half of the time the others are of one sign, so that all rows
// have it so.
std::string compose_together(const Task& task, const Workload& workload, std::span<ComposedTensor> tensors,
                             bool counterpart, RandomStream& stream) {
  struct Pair {
    std::size_t one = 0, other = 0;
    std::vector<std::string> shared;
  };
  const auto draw_pair = [&] {
    Pair pair{below(stream, tensors.size()), below(stream, tensors.size() - 1), {}};
    if (pair.other >= pair.one) ++pair.other;
    for (const std::string& name : tensors[pair.one].spec->shape)
      if (std::ranges::count(tensors[pair.other].spec->shape, name) > 0 && workload.values.contains(name))
        pair.shared.push_back(name);
    return pair;
  };
  Pair pair = draw_pair();
  for (int i = 0; i < 2; ++i)
    if (Pair again = draw_pair(); again.shared.size() > pair.shared.size()) pair = std::move(again);
  ComposedTensor &one = tensors[pair.one], &other = tensors[pair.other];
  if (pair.shared.empty() || one.composer.bounded() || other.composer.bounded()) return {};
  std::string name = pair.shared[below(stream, pair.shared.size())];
  for (int i = 0; i < 2; ++i)
    if (const std::string& longer = pair.shared[below(stream, pair.shared.size())];
        workload.values.at(longer) > workload.values.at(name))
      name = longer;
  // Mostly one over which outputs sum.
  const auto is_summed = [&](const std::string& each) {
    return std::ranges::none_of(task.tensors, [&](const TensorSpec& tensor) {
      return tensor.role == Role::output && std::ranges::count(tensor.shape, each) > 0;
    });
  };
  if (const auto summed = std::ranges::find_if(pair.shared, is_summed);
      summed != pair.shared.end() && below(stream, 4) != 0)
    name = *summed;
  const auto axis_of = [&](const ComposedTensor& tensor) {
    return static_cast<std::size_t>(std::ranges::find(tensor.spec->shape, name) - tensor.spec->shape.begin());
  };
  std::set<std::size_t> indices;
  for (std::size_t n = 1 + below(stream, 3); n > 0; --n)
    indices.insert(one.composer.draw_index(axis_of(one)));
  std::string description;
  if (below(stream, 2) == 0)
    for (ComposedTensor& each : tensors)
      if (&each != &one && &each != &other && !each.composer.bounded())
        description += each.with_values([&](std::span<double> values) {
          each.composer.of_one_sign(values);
          return std::string("without signs");
        });
  const std::string where = fmt::format(" at {} of {}", fmt::join(indices, ", "), name);
  description += one.with_values(
      [&](std::span<double> values) { return one.composer.exceed(values, axis_of(one), indices) + where; });
  if (!counterpart)
    description += other.with_values([&](std::span<double> values) {
      return other.composer.grow(values, axis_of(other), indices) + where;
    });
  return description;
}

// One tensor is small, another as large: what is small is not nothing.
std::string compose_opposed(std::span<ComposedTensor> tensors, bool counterpart, RandomStream& stream) {
  const std::size_t first = choose(tensors, stream), step = 1 + below(stream, tensors.size() - 1);
  ComposedTensor &one = tensors[first], &other = tensors[(first + step) % tensors.size()];
  if (one.composer.bounded() || other.composer.bounded()) return {};
  const double factor = one.composer.small_factor(), again = std::exp2(12.0 * uniform(stream) - 6.0) / factor;
  return one.with_values([&](std::span<double> values) {
    return one.composer.times(values, counterpart ? 0.0 : factor);
  }) + other.with_values([&](std::span<double> values) { return other.composer.times(values, again); });
}

}  // namespace

std::string compose_values(const Task& task, const Workload& workload, std::uint64_t seed, int strength,
                           int headroom, std::span<std::vector<std::byte>> inputs, std::optional<int> kind,
                           std::span<const double> thresholds, JointChange* joint) {
  RandomStream stream = stream_of(seed, "composition", static_cast<std::uint64_t>(strength));
  std::vector<ComposedTensor> tensors;
  std::size_t next = 0;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    std::vector<std::byte>& bytes = inputs[next++];
    const Dtype dtype = task.dtype(tensor, workload);
    const Fill fill = task.fill(tensor.fill, workload);
    if (!bytes.empty() && is_floating(dtype) && !tensor.shape.empty() && !task.is_derived(tensor.name) &&
        composed(fill))
      tensors.push_back(
          {&tensor, &bytes, dtype,
           Composer(task.shape(tensor, workload), dtype, fill, strength, headroom, thresholds, stream)});
  }
  if (tensors.empty()) return {};
  std::optional<Change> wanted;
  if (kind) wanted = kKinds[*kind % kCompositionKinds];
  if (!wanted && below(stream, kJoint) == 0)
    wanted = below(stream, 2) == 0 ? Change::together : Change::opposed;
  if (strength > 0 && tensors.size() > 1 && (wanted == Change::together || wanted == Change::opposed)) {
    const bool counterpart = joint != nullptr && joint->counterpart, together = wanted == Change::together;
    if (std::string done = together ? compose_together(task, workload, tensors, counterpart, stream)
                                    : compose_opposed(tensors, counterpart, stream);
        !done.empty()) {
      if (joint != nullptr) joint->kind = together ? JointChange::Kind::hidden : JointChange::Kind::weighty;
      return done;
    }
  }
  // Most gaps are alone: other changes mostly close them.
  const bool alone = wanted == Change::gap && below(stream, 4) != 0;
  const StressCase* stress = !task.stress.empty() && !alone && below(stream, 5) < 2
                                 ? &task.stress[below(stream, task.stress.size())]
                                 : nullptr;
  const std::size_t chosen = kind ? choose(tensors, stream) : below(stream, tensors.size());
  std::string description;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    ComposedTensor& tensor = tensors[t];
    if (stress != nullptr)
      if (const auto fill = stress->fills.find(tensor.spec->name); fill != stress->fills.end()) {
        fill_tensor(task.fill(fill->second, workload), seed ^ name_hash(tensor.spec->name),
                    task.shape(*tensor.spec, workload), tensor.dtype, *tensor.bytes);
        description += fmt::format("{} as in the stress case {}\n", tensor.spec->name, stress->name);
      }
    const bool main = t == chosen;
    const std::size_t changes = !main                            ? (!alone && below(stream, 3) == 0 ? 1 : 0)
                                : alone || below(stream, 2) == 0 ? 1
                                                                 : 1 + below(stream, kMostChanges);
    for (std::size_t i = 0; i < changes; ++i)
      description += tensor.with_values([&](std::span<double> values) {
        return tensor.composer.change(values, main && i == 0, main && i == 0 ? wanted : std::nullopt);
      });
  }
  return description;
}

}  // namespace cultivar
