// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/composition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

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
  gap
};
// Those that mistakes most often depend on are listed more than once.
constexpr Change kChanges[] = {Change::outliers,   Change::outliers, Change::shift,       Change::shift,
                               Change::shift,      Change::scale,    Change::scale,       Change::mirror,
                               Change::calm,       Change::late,     Change::ties,        Change::low_rows,
                               Change::magnitudes, Change::rising,   Change::alternating, Change::sparse,
                               Change::tiny,       Change::small,    Change::gap};
// Each once, or those that are up or down both ways, in the order in which turns take them.
constexpr Change kKinds[] = {Change::shift,       Change::scale_up, Change::outliers, Change::scale_down,
                             Change::late,        Change::low_rows, Change::rising,   Change::magnitudes,
                             Change::mirror,      Change::ties,     Change::shift,    Change::calm,
                             Change::alternating, Change::sparse,   Change::tiny,     Change::small,
                             Change::gap};
static_assert(std::size(kKinds) == kCompositionKinds);
// Values of a uniform fill must stay in its range.
constexpr Change kBounded[] = {Change::calm, Change::ties};

constexpr std::size_t kMostChanges = 3;
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
  std::string change(std::span<double> values, bool large, std::optional<int> kind = {}) {
    values_ = values;
    if (kind && !bounded_)
      if (std::string done = apply(kKinds[*kind % kCompositionKinds], large); !done.empty()) return done;
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

 private:
  double size(double most) { return std::exp2(most * uniform(stream_)); }
  double grown(double value) const { return value * std::exp2(headroom_); }
  // This size, or in half of the cases, if there are thresholds, from half of one to twice it, mostly a
  // little above it.
  double near_threshold(double usual) {
    if (thresholds_.empty() || below(stream_, 2) == 0) return usual;
    const double threshold = thresholds_[below(stream_, thresholds_.size())];
    return threshold *
           std::exp2(below(stream_, 2) == 0 ? 0.25 * uniform(stream_) : 2.0 * uniform(stream_) - 1.0);
  }
  double sign() { return below(stream_, 2) == 0 ? 1.0 : -1.0; }

  // A long axis if there is any, and what an index along it is of.
  struct Axis {
    std::size_t number = 0, extent = 1, stride = 1;
    std::size_t along(std::size_t i) const { return i / stride % extent; }
    std::size_t first(std::size_t line) const { return line / stride * stride * extent + line % stride; }
  };
  Axis draw_axis() {
    Axis axis;
    axis.number = below(stream_, shape_.size());
    for (int i = 0; i < 4 && shape_[axis.number] < 4; ++i) axis.number = below(stream_, shape_.size());
    axis.extent = static_cast<std::size_t>(shape_[axis.number]);
    for (std::size_t i = axis.number + 1; i < shape_.size(); ++i)
      axis.stride *= static_cast<std::size_t>(shape_[i]);
    return axis;
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
        constexpr double kMost = 40.0, kSpread = 0x1p-4;
        const double by = near_threshold(deviation_ * kMost * uniform(stream_));
        each([&](std::size_t, double x) { return x * kSpread; });
        for (std::size_t line = 0; line < values_.size() / axis.extent; ++line)
          values_[axis.first(line) + draw_place(axis.extent) * axis.stride] += by;
        return fmt::format("times {:.3g}, and plus {:.3g} once in each line along axis {}", kSpread, by,
                           axis.number);
      }
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

}  // namespace

std::string compose_values(const Task& task, const Workload& workload, std::uint64_t seed, int strength,
                           int headroom, std::span<std::vector<std::byte>> inputs, std::optional<int> kind,
                           std::span<const double> thresholds) {
  RandomStream stream = stream_of(seed, "composition", static_cast<std::uint64_t>(strength));
  struct Tensor {
    const TensorSpec* spec;
    std::vector<std::byte>* bytes;
  };
  std::vector<Tensor> tensors;
  std::size_t next = 0;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    std::vector<std::byte>& bytes = inputs[next++];
    if (!bytes.empty() && is_floating(task.dtype(tensor, workload)) && !tensor.shape.empty() &&
        !task.is_derived(tensor.name) && composed(task.fill(tensor.fill, workload)))
      tensors.push_back({&tensor, &bytes});
  }
  if (tensors.empty()) return {};
  const StressCase* stress = !task.stress.empty() && below(stream, 5) < 2
                                 ? &task.stress[below(stream, task.stress.size())]
                                 : nullptr;
  const std::size_t chosen = below(stream, tensors.size());
  std::string description;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const TensorSpec& tensor = *tensors[t].spec;
    const Fill plain = task.fill(tensor.fill, workload);
    const Dtype dtype = task.dtype(tensor, workload);
    const std::vector<std::int64_t> shape = task.shape(tensor, workload);
    std::vector<std::string> told;
    if (stress != nullptr)
      if (const auto fill = stress->fills.find(tensor.name); fill != stress->fills.end()) {
        fill_tensor(task.fill(fill->second, workload), seed ^ name_hash(tensor.name), shape, dtype,
                    *tensors[t].bytes);
        told.push_back(fmt::format("as in the stress case {}", stress->name));
      }
    const bool main = t == chosen;
    const std::size_t changes = !main                   ? (below(stream, 3) == 0 ? 1 : 0)
                                : below(stream, 2) == 0 ? 1
                                                        : 1 + below(stream, kMostChanges);
    if (changes > 0) {
      std::vector<double> values(tensors[t].bytes->size() / size_of(dtype));
      decode(dtype, *tensors[t].bytes, values);
      Composer composer(shape, dtype, plain, strength, headroom, thresholds, stream);
      for (std::size_t i = 0; i < changes; ++i)
        if (std::string done = composer.change(values, main && i == 0, main && i == 0 ? kind : std::nullopt);
            !done.empty())
          told.push_back(std::move(done));
      composer.clamp(values);
      encode(dtype, values, *tensors[t].bytes);
    }
    for (const std::string& each : told) description += fmt::format("{} {}\n", tensor.name, each);
  }
  return description;
}

}  // namespace cultivar
