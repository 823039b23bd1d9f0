// SPDX-License-Identifier: Apache-2.0
#include "evaluators/check/composed_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "evaluators/check/compare.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/system/secret.hpp"
#include "evaluators/task/composition.hpp"

namespace cultivar {
namespace {

constexpr int kHeadroom = 3;        // powers of two
constexpr std::int64_t kRows = 32;  // of each group, on which the inputs are tried
constexpr double kMostFlops = 2e7;  // of the oracle, for these rows
// What the permitted roundings may cost of an output, beside the dtype's own rounding.
constexpr double kMostLost = 0.02;
// Of an output whose values are all smaller nothing is permitted but what underflows, and that differs.
constexpr double kLeastSize = 0x1p-60;
// How often two tensors are composed together until it shows in the outputs, for inputs of up to so many
// bytes.
constexpr std::uint64_t kJointAttempts = 6;
constexpr std::size_t kJointBytes = std::size_t{1} << 20;

// A few rows of each group, spread evenly, with the first and the last.
std::vector<std::int64_t> some_rows(const Task& task, const Workload& workload, const RowLayout& layout) {
  const double each = task.flops(workload) / static_cast<double>(std::max<std::int64_t>(1, layout.rows()));
  const auto most =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(kMostFlops / std::max(1.0, each)), 2, kRows);
  std::vector<std::int64_t> rows;
  for (const RowGroup& group : layout.groups()) {
    const std::int64_t count = std::min(group.rows, most);
    for (std::int64_t i = 0; i < count; ++i)
      rows.push_back(group.first + (count == 1 ? 0 : i * (group.rows - 1) / (count - 1)));
  }
  return rows;
}

bool bears(const TaskReference& library, const RowLayout& layout, const Oracle& oracle, const Inputs& inputs,
           std::span<const std::int64_t> rows) {
  const std::vector<double> exact = oracle.rows(library.exact(), inputs.view(), rows);
  const auto finite = [](double value) { return std::isfinite(value); };
  if (!std::ranges::all_of(exact, finite)) return false;
  for (const OutputLayout& output : layout.outputs()) {
    const RowSpan span = layout.span_of(output, rows);
    const auto width = static_cast<std::size_t>(layout.group(output).elements);
    for (std::size_t i = 0; i < span.last - span.first; ++i)
      for (std::size_t e = 0; e < output.element_offsets.size(); ++e)
        if (const double value = exact[span.value + i * width + output.first_element + e];
            !std::isfinite(round_to(output.dtype, value)))
          return false;
  }
  if (library.rounded() == nullptr) return true;
  const std::vector<double> rounded = oracle.rows(library.rounded(), inputs.view(), rows);
  if (!std::ranges::all_of(rounded, finite)) return false;
  const std::vector<LegalError> lost = legal_errors(layout, rows, exact, rounded);
  const std::vector<double> zeros(exact.size(), 0.0);
  const std::vector<LegalError> size = legal_errors(layout, rows, exact, zeros);
  for (std::size_t i = 0; i < lost.size(); ++i) {
    const double most = kMostLost + 2.0 * epsilon_of(layout.outputs()[i].dtype);
    if (size[i].max < kLeastSize) return false;
    if (lost[i].rms > most * size[i].rms || lost[i].max > most * size[i].max) return false;
  }
  return true;
}

std::size_t bytes_of(const Inputs& inputs) {
  std::size_t bytes = 0;
  for (const std::vector<std::byte>& each : inputs.bytes) bytes += each.size();
  return bytes;
}

// Whether all outputs say that what is hidden is nothing, or some that what is weighty is something.
bool shows(const TaskReference& library, const RowLayout& layout, const Oracle& oracle,
           JointChange::Kind kind, const Inputs& inputs, const Inputs& counterpart,
           std::span<const std::int64_t> rows) {
  constexpr double kNothing = 1e-6, kSomething = 1e-2;
  const std::vector<double> exact = oracle.rows(library.exact(), inputs.view(), rows),
                            without = oracle.rows(library.exact(), counterpart.view(), rows);
  const std::vector<LegalError> differ = legal_errors(layout, rows, exact, without),
                                size = legal_errors(layout, rows, exact, std::vector<double>(exact.size()));
  bool nothing = true, something = false;
  for (std::size_t i = 0; i < differ.size(); ++i) {
    const double least = kNothing + 2.0 * epsilon_of(layout.outputs()[i].dtype);
    nothing = nothing && differ[i].max <= least * size[i].max;
    something = something || differ[i].max >= kSomething * size[i].max;
  }
  return kind == JointChange::Kind::hidden ? nothing : something;
}

}  // namespace

Inputs composed_inputs(const TaskReference& library, const Task& task, const Workload& workload,
                       std::uint64_t seed, int threads, std::optional<int> kind,
                       std::span<const double> thresholds, std::span<const std::int64_t> also) {
  const RowLayout layout(task, workload);
  const Oracle oracle(library, task, workload, threads);
  const std::vector<std::int64_t> rows = some_rows(task, workload, layout);
  const auto borne = [&](const Inputs& inputs) {
    return bears(library, layout, oracle, inputs, rows) &&
           (also.empty() || bears(library, layout, oracle, inputs, also));
  };
  RandomStream stream = stream_of(seed, "strength", 0);
  for (int strength = 1 + static_cast<int>(below(stream, kMostStrength)); strength >= 0; --strength) {
    std::optional<Inputs> fallback;
    for (std::uint64_t attempt = 0; attempt < kJointAttempts; ++attempt) {
      const std::uint64_t own = derive_seed(
          seed, "composition", static_cast<std::uint64_t>(strength) + kMostStrength * 2 * attempt);
      JointChange joint;
      const auto composed = [&](int headroom, bool counterpart) {
        return make_altered_inputs(
            &library, task, workload, seed, {}, [&](std::span<std::vector<std::byte>> bytes) {
              joint = {.counterpart = counterpart};
              return compose_values(task, workload, own, strength, headroom, bytes, kind, thresholds, &joint);
            });
      };
      const Inputs larger = composed(kHeadroom, false);
      const bool once = joint.kind == JointChange::Kind::none || bytes_of(larger) > kJointBytes;
      if (borne(larger)) {
        Inputs inputs = composed(0, false);
        if (borne(inputs)) {
          if (once || shows(library, layout, oracle, joint.kind, inputs, composed(0, true), rows))
            return inputs;
          if (!fallback) fallback = std::move(inputs);
        }
      }
      if (once) break;
    }
    if (fallback) return std::move(*fallback);
  }
  return make_inputs(&library, task, workload, seed);
}

}  // namespace cultivar
