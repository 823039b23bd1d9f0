// SPDX-License-Identifier: Apache-2.0
#include "evaluators/check/run_to_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cultivar {
namespace {

struct Difference {
  double max = 0.0, rms = 0.0, largest = 0.0;  // `largest`: the greatest magnitude of the first run
  std::int64_t worst = 0;
};

Difference difference_of(Dtype dtype, std::span<const std::byte> first, std::span<const std::byte> second) {
  std::vector<double> a(first.size() / size_of(dtype)), b(a.size());
  decode(dtype, first, a);
  decode(dtype, second, b);
  Difference found;
  double squares = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i])) found.largest = std::max(found.largest, std::abs(a[i]));
    double difference = std::abs(a[i] - b[i]);
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) difference = 0.0;
    if (!std::isfinite(difference)) difference = std::numeric_limits<double>::infinity();
    squares += difference * difference;
    if (difference > found.max) found.max = difference, found.worst = static_cast<std::int64_t>(i);
  }
  found.rms = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, a.size())));
  return found;
}

}  // namespace

std::string run_to_run_differences(const Task& task, const RowLayout& layout,
                                   std::span<const std::vector<std::byte>> first,
                                   std::span<const std::vector<std::byte>> second,
                                   const std::function<std::vector<LegalError>()>& legal) {
  std::string text;
  std::vector<LegalError> permitted;
  for (std::size_t t = 0; t < layout.outputs().size(); ++t) {
    const OutputLayout& output = layout.outputs()[t];
    if (first[t] == second[t]) continue;
    const double share = task.tensors[static_cast<std::size_t>(output.tensor)].run_to_run;
    if (share == 0.0) {
      const auto at = std::ranges::mismatch(first[t], second[t]).in1 - first[t].begin();
      text += fmt::format("the first element that differs is {}\n",
                          layout.describe(output, at / static_cast<std::ptrdiff_t>(size_of(output.dtype))));
      continue;
    }
    if (permitted.empty()) permitted = legal();
    const Difference found = difference_of(output.dtype, first[t], second[t]);
    const double floor = task.tolerance.floor_eps * accumulation_epsilon(output.dtype) * found.largest;
    // Any difference, however small, may change to which of two neighbors a result is rounded.
    const double last_place = epsilon_of(output.dtype) * found.largest;
    const double most = last_place + share * (task.tolerance.factor * permitted[t].max + floor);
    if (found.max <= most) continue;
    text += fmt::format(
        "{} differs by {:.3g}, and may differ by {:.3g} (one last place, and {:g} of the permitted error)\n",
        layout.describe(output, found.worst), found.max, most, share);
  }
  return text;
}

}  // namespace cultivar
