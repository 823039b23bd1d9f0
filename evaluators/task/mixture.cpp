// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/mixture.hpp"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

enum class Pattern { outlier, offset, equal, spike, stress, ordered };

// Where a pattern lies: [first, last) along each axis.
struct Box {
  std::vector<std::int64_t> first, last;
  std::int64_t width(std::size_t axis) const { return last[axis] - first[axis]; }
};

std::vector<Pattern> patterns_for(const Fill& fill, bool stressed) {
  std::vector<Pattern> patterns;
  if (fill.kind == Fill::Kind::normal || fill.kind == Fill::Kind::spread)
    patterns = {Pattern::outlier, Pattern::offset, Pattern::equal, Pattern::spike};
  else if (fill.kind == Fill::Kind::uniform)
    patterns = {Pattern::outlier, Pattern::equal};
  if (stressed) patterns.push_back(Pattern::stress);
  return patterns;
}

constexpr std::int64_t kLeastOrdered = 4;  // whole numbers, of which an order may be expected
constexpr std::int64_t kLong = 16;         // elements along an axis of which a slice is a small part

bool has_long_axis(std::span<const std::int64_t> shape) {
  return std::ranges::any_of(shape, [](std::int64_t extent) { return extent >= kLong; });
}

// A slice of secret width across one axis, a long one if there is any, and along each other axis all or a
// part of it. A pattern that covered a whole tensor would leave outputs in which rounding errors cancel for
// one order of operations and not for another.
Box draw_box(std::span<const std::int64_t> shape, RandomStream& stream) {
  Box box;
  std::size_t across = below(stream, shape.size());
  while (has_long_axis(shape) && shape[across] < kLong) across = below(stream, shape.size());
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto extent = static_cast<std::size_t>(shape[axis]);
    std::size_t first = 0, width = extent;
    if (axis == across || below(stream, 2) == 0) {
      const std::size_t most = axis == across ? std::max<std::size_t>(1, extent / 8) : extent;
      width = below(stream, 2) == 0 ? 1 : 1 + below(stream, most);
      first = below(stream, extent - width + 1);
    }
    box.first.push_back(static_cast<std::int64_t>(first));
    box.last.push_back(static_cast<std::int64_t>(first + width));
  }
  return box;
}

// One element, in the last eighth of every axis; half of the time much nearer to its end.
Box draw_late_place(std::span<const std::int64_t> shape, RandomStream& stream) {
  Box box;
  for (const std::int64_t extent : shape) {
    const auto eighth = static_cast<std::size_t>(std::max<std::int64_t>(1, extent / 8));
    const std::size_t most = below(stream, 2) == 0 ? eighth : std::min<std::size_t>(eighth, 8);
    box.first.push_back(extent - 1 - static_cast<std::int64_t>(below(stream, most)));
    box.last.push_back(box.first.back() + 1);
  }
  return box;
}

// Calls change(values) with each contiguous run of the box; `values` are stored again afterwards.
void change(const Box& box, std::span<const std::int64_t> shape, Dtype dtype, std::span<std::byte> bytes,
            const std::function<void(std::span<double>)>& change_run) {
  const std::size_t rank = shape.size(), width = size_of(dtype);
  std::vector<std::int64_t> at = box.first;
  std::vector<double> run(static_cast<std::size_t>(box.width(rank - 1)));
  while (true) {
    std::int64_t element = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) element = element * shape[axis] + at[axis];
    const std::span<std::byte> stored =
        bytes.subspan(static_cast<std::size_t>(element) * width, run.size() * width);
    decode(dtype, stored, run);
    change_run(run);
    encode(dtype, run, stored);
    std::size_t axis = rank - 1;
    while (axis-- > 0) {
      if (++at[axis] < box.last[axis]) break;
      at[axis] = box.first[axis];
    }
    if (axis == static_cast<std::size_t>(-1)) return;
  }
}

std::string place_of(const TensorSpec& tensor, std::span<const std::int64_t> shape, const Box& box) {
  std::string place = tensor.name;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t first = box.first[axis], last = box.last[axis];
    place += axis == 0 ? "[" : ", ";
    if (first == 0 && last == shape[axis])
      place += ":";
    else if (last == first + 1)
      place += fmt::format("{}", first);
    else
      place += fmt::format("{}:{}", first, last);
  }
  return place + "]";
}

double between(double low, double high, RandomStream& stream) {
  return low * std::exp(cultivar::uniform(stream) * std::log(high / low));
}
double with_sign(double value, RandomStream& stream) {
  return below(stream, 2) == 0 ? value : -value;
}

// Plants patterns in one tensor.
class Planter {
 public:
  Planter(const Task& task, const Workload& workload, const TensorSpec& tensor, std::span<std::byte> values,
          RandomStream& stream)
      : task_(task),
        workload_(workload),
        tensor_(tensor),
        fill_(task.fill(tensor.fill, workload)),
        shape_(task.shape(tensor, workload)),
        dtype_(task.dtype(tensor, workload)),
        values_(values),
        stream_(stream) {
    for (const StressCase& stress : task.stress)
      if (stress.fills.contains(tensor.name)) cases_.push_back(&stress);
    if (!shape_.empty() && !values.empty() && is_floating(dtype_) && !is_whole(fill_.kind))
      possible_ = patterns_for(fill_, !cases_.empty());
    if (!has_long_axis(shape_)) std::erase(possible_, Pattern::equal);
    if (!shape_.empty() && (fill_.kind == Fill::Kind::integers || fill_.kind == Fill::Kind::permutation) &&
        extent_along(fill_.axis, shape_) >= kLeastOrdered)
      possible_.push_back(Pattern::ordered);
  }

  bool possible() const { return !possible_.empty(); }
  bool possible(Pattern pattern) const { return std::ranges::find(possible_, pattern) != possible_.end(); }
  std::string plant() { return plant(possible_[below(stream_, possible_.size())]); }

  std::string plant(Pattern pattern) {
    if (pattern == Pattern::ordered) return put_in_order();
    const Box box = pattern == Pattern::spike ? draw_late_place(shape_, stream_) : draw_box(shape_, stream_);
    const std::string place = place_of(tensor_, shape_, box);
    const bool bounded = fill_.kind == Fill::Kind::uniform;
    const double deviation = fill_.kind == Fill::Kind::normal ? fill_.b : fill_.a;
    const auto each = [&](auto value) {
      change(box, shape_, dtype_, values_, [&](std::span<double> run) {
        for (double& x : run) x = value(x);
      });
    };
    switch (pattern) {
      case Pattern::outlier: {
        const double times = between(3.0, 16.0, stream_), factor = bounded ? 1.0 / times : times;
        const double low = bounded ? fill_.a : 0.0;
        each([&](double x) { return low + (x - low) * factor; });
        return fmt::format("{} times {:.3g}\n", place, factor);
      }
      case Pattern::offset: {
        const double offset = with_sign(deviation * between(8.0, 32.0, stream_), stream_);
        each([&](double x) { return x + offset; });
        return fmt::format("{} plus {:.3g}\n", place, offset);
      }
      case Pattern::equal: {
        std::optional<double> first;
        each([&](double x) { return first ? *first : *(first = x); });
        return fmt::format("{} all equal to {:.3g}\n", place, *first);
      }
      case Pattern::spike: {
        const double value = with_sign(deviation * between(16.0, 256.0, stream_), stream_);
        each([&](double) { return value; });
        return fmt::format("{} is {:.3g}\n", place, value);
      }
      case Pattern::stress:
      case Pattern::ordered:
        break;
    }
    const StressCase& stress = *cases_[below(stream_, cases_.size())];
    std::vector<std::int64_t> extents;
    std::size_t elements = 1;
    for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
      extents.push_back(box.width(axis));
      elements *= static_cast<std::size_t>(extents.back());
    }
    std::vector<std::byte> stored(elements * size_of(dtype_));
    fill_tensor(task_.fill(stress.fills.at(tensor_.name), workload_), stream_(), extents, dtype_, stored);
    std::vector<double> part(elements);
    decode(dtype_, stored, part);
    std::size_t next = 0;
    each([&](double) { return part[next++]; });
    return fmt::format("{} filled as in the stress case {}\n", place, stress.name);
  }

 private:
  // Whole numbers that follow each other along the axis of the fill, but for a few: a kernel may look at
  // some, and take the others for granted.
  std::string put_in_order() {
    const auto extent = static_cast<std::size_t>(extent_along(fill_.axis, shape_));
    std::size_t stride = 1;
    if (fill_.axis != kAllAxes) {
      const int rank = static_cast<int>(shape_.size());
      const int axis = std::clamp(fill_.axis < 0 ? rank + fill_.axis : fill_.axis, 0, rank - 1);
      for (int i = axis + 1; i < rank; ++i)
        stride *= static_cast<std::size_t>(shape_[static_cast<std::size_t>(i)]);
    }
    std::vector<double> all(values_.size() / size_of(dtype_)), line(extent);
    decode(dtype_, values_, all);
    const bool swaps = fill_.kind == Fill::Kind::permutation || below(stream_, 3) == 0;
    const std::size_t exceptions = 1 + below(stream_, 3);
    for (std::size_t number = 0; number < all.size() / extent; ++number) {
      const std::size_t first = number / stride * stride * extent + number % stride;
      for (std::size_t i = 0; i < extent; ++i) line[i] = all[first + i * stride];
      const std::vector<double> drawn = line;
      if (fill_.kind == Fill::Kind::permutation) {
        std::ranges::sort(line);
      } else {
        const double count = fill_.b - fill_.a, start = std::floor(cultivar::uniform(stream_) * count);
        for (std::size_t i = 0; i < extent; ++i)
          line[i] = fill_.a + std::fmod(start + static_cast<double>(i), count);
      }
      for (std::size_t n = 0; n < exceptions; ++n) {
        const std::size_t place = below(stream_, extent);
        if (swaps)
          std::swap(line[place], line[below(stream_, extent)]);
        else
          line[place] = drawn[place];
      }
      for (std::size_t i = 0; i < extent; ++i) all[first + i * stride] = line[i];
    }
    encode(dtype_, all, values_);
    return fmt::format("{} in order, but for {} in each line {}\n", tensor_.name, exceptions,
                       swaps ? "that were swapped" : "that were not");
  }

  const Task& task_;
  const Workload& workload_;
  const TensorSpec& tensor_;
  Fill fill_;
  std::vector<std::int64_t> shape_;
  Dtype dtype_;
  std::span<std::byte> values_;
  RandomStream& stream_;
  std::vector<const StressCase*> cases_;
  std::vector<Pattern> possible_;
};

// In [-1, 1), from a mix of the bits (the finalizer of splitmix64).
double share_of(double value, std::uint64_t seed) {
  std::uint64_t x = std::bit_cast<std::uint64_t>(value) + seed;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<double>(static_cast<std::int64_t>(x)) * 0x1p-63;
}

void perturb(Dtype dtype, std::uint64_t seed, std::span<std::byte> bytes) {
  constexpr std::size_t kPart = 4096;
  constexpr double kSmall = 0x1p-10;
  const std::size_t width = size_of(dtype), count = bytes.size() / width;
  const double most = std::max(kSmall, 0.75 * epsilon_of(dtype));
  tbb::parallel_for(std::size_t{0}, (count + kPart - 1) / kPart, [&](std::size_t part) {
    const std::size_t first = part * kPart, some = std::min(kPart, count - first);
    const std::span<std::byte> elements = bytes.subspan(first * width, some * width);
    std::vector<double> values(some);
    decode(dtype, elements, values);
    for (double& value : values) {
      const double changed = round_to(dtype, value * (1.0 + most * share_of(value, seed)));
      if (std::isfinite(value) && std::isfinite(changed)) value = changed;
    }
    encode(dtype, values, elements);
  });
}

}  // namespace

std::string mix_values(const Task& task, const Workload& workload, std::uint64_t seed,
                       std::span<std::vector<std::byte>> inputs) {
  RandomStream stream = stream_of(seed, "mixture", 0);
  std::vector<Planter> planters;
  std::size_t next = 0;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    Planter planter(task, workload, tensor, inputs[next++], stream);
    if (planter.possible() && !task.is_derived(tensor.name)) planters.push_back(std::move(planter));
  }
  if (planters.empty()) return {};
  std::string description;
  const std::size_t chosen = below(stream, planters.size());
  for (std::size_t i = 0; i < planters.size(); ++i) {
    if (i != chosen) {
      for (const Pattern tame : {Pattern::equal, Pattern::ordered})
        if (planters[i].possible(tame) && below(stream, 2) == 0) description += planters[i].plant(tame);
      continue;
    }
    const std::size_t count = planters[i].possible(Pattern::ordered) ? 1 : 1 + below(stream, 3);
    for (std::size_t n = 0; n < count; ++n) description += planters[i].plant();
  }
  return description;
}

void perturb_values(const Task& task, const Workload& workload, std::uint64_t seed,
                    std::span<std::vector<std::byte>> inputs) {
  std::size_t next = 0;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    std::vector<std::byte>& bytes = inputs[next++];
    const Dtype dtype = task.dtype(tensor, workload);
    if (is_floating(dtype) && !task.is_derived(tensor.name))
      perturb(dtype, seed ^ name_hash(tensor.name), bytes);
  }
}

}  // namespace cultivar
