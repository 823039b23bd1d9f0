// SPDX-License-Identifier: Apache-2.0
#include "evaluators/check/oracle.hpp"

#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "evaluators/check/compare.hpp"
#include "evaluators/references/cpp/cpp_reference.hpp"
#include "evaluators/references/python/python_reference.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/task/composition.hpp"
#include "evaluators/task/mixture.hpp"
#include "evaluators/variant/variant.hpp"

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
  const std::vector<double> rounded = oracle.rows(library.rounded_or_overflow(), inputs.view(), rows);
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

void decode_all(Dtype dtype, std::span<const std::byte> elements, std::span<double> out) {
  constexpr std::size_t grain = std::size_t{1} << 16;
  const std::size_t width = size_of(dtype);
  const auto part = [&](std::size_t i) {
    const std::size_t first = i * grain, some = std::min(grain, out.size() - first);
    decode(dtype, elements.subspan(first * width, some * width), out.subspan(first, some));
  };
  if (out.size() <= grain) return decode(dtype, elements, out);
  tbb::parallel_for(std::size_t{0}, (out.size() + grain - 1) / grain, part);
}

namespace {

// How many elements of a row lie one after the other in the tensor, again and again.
std::size_t run_of(const OutputLayout& part) {
  const std::size_t count = part.element_offsets.size();
  std::size_t run = 1;
  while (run < count && part.element_offsets[run] == static_cast<std::int64_t>(run)) ++run;
  return run;
}

void derive_inputs(const TaskReference& library, const Task& task, const Workload& workload, Inputs& inputs) {
  const RowLayout layout = RowLayout::of_derived(task, workload);
  const auto values =
      Oracle(library, task, workload, tbb::this_task_arena::max_concurrency()).derived(layout, inputs.view());
  const auto row_values = static_cast<std::size_t>(layout.groups().front().elements);
  for (const OutputLayout& part : layout.outputs()) {
    const auto input =
        static_cast<std::size_t>(std::count_if(task.tensors.begin(), task.tensors.begin() + part.tensor,
                                               [](const TensorSpec& t) { return t.role == Role::input; }));
    std::byte* const tensor = inputs.bytes[input].data();
    const std::size_t count = part.element_offsets.size(), run = run_of(part), width = size_of(part.dtype);
    tbb::parallel_for(std::int64_t{0}, layout.rows(), [&](std::int64_t row) {
      std::vector<std::byte> encoded(count * width);
      encode(
          part.dtype,
          std::span(values).subspan(static_cast<std::size_t>(row) * row_values + part.first_element, count),
          encoded);
      const std::int64_t base = layout.base(part, row);
      for (std::size_t e = 0; e < count; e += run)
        std::memcpy(tensor + static_cast<std::size_t>(base + part.element_offsets[e]) * width,
                    encoded.data() + e * width, run * width);
    });
    decode_all(part.dtype, inputs.bytes[input], inputs.decoded[input]);
  }
}

// `unknown`: derived inputs have their place, but no values yet.
void decode_inputs(const Task& task, const Workload& workload, Inputs& inputs, bool unknown) {
  std::size_t next = 0;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    const std::span<const std::byte> bytes = inputs.bytes[next++];
    const Dtype dtype = task.dtype(tensor, workload);
    auto& values = inputs.decoded.emplace_back(bytes.size() / size_of(dtype));
    if (!unknown || !task.is_derived(tensor.name)) decode_all(dtype, bytes, values);
  }
  for (const auto& values : inputs.decoded) inputs.values.push_back(values.data());
  for (const std::vector<std::byte>& bytes : inputs.bytes) inputs.stored.push_back(bytes.data());
}

}  // namespace

namespace {

// Tensors that are hot along the same dimension are so at the same index: products of the two large factors
// are what such a distribution is for.
std::optional<std::uint64_t> shared_place(const Fill& fill, const TensorSpec& tensor, std::uint64_t seed) {
  const int rank = static_cast<int>(tensor.shape.size());
  if (fill.kind != Fill::Kind::hot || rank == 0 || fill.axis == kAllAxes) return std::nullopt;
  const int axis = std::clamp(fill.axis < 0 ? rank + fill.axis : fill.axis, 0, rank - 1);
  return derive_seed(seed, "hot " + tensor.shape[static_cast<std::size_t>(axis)]);
}

}  // namespace

Inputs make_inputs(const TaskReference* library, const Task& task, const Workload& workload,
                   std::uint64_t seed, const std::map<std::string, Fill>& fills,
                   std::optional<std::uint64_t> mixture) {
  AlterInputs alter;
  if (mixture)
    alter = [&](std::span<std::vector<std::byte>> bytes) {
      return mix_values(task, workload, *mixture, bytes);
    };
  return make_altered_inputs(library, task, workload, seed, fills, alter);
}

Inputs make_altered_inputs(const TaskReference* library, const Task& task, const Workload& workload,
                           std::uint64_t seed, const std::map<std::string, Fill>& fills,
                           const AlterInputs& alter) {
  if (task.derived && library == nullptr)
    throw std::logic_error("the derived inputs of a task were drawn without its oracle");
  Inputs inputs;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    const auto replaced = fills.find(tensor.name);
    std::vector<std::byte>& bytes = inputs.bytes.emplace_back(task.bytes_of(tensor, workload));
    if (task.is_derived(tensor.name)) continue;
    const Fill fill = task.fill(replaced == fills.end() ? tensor.fill : replaced->second, workload);
    fill_tensor(fill, derive_seed(seed, tensor.name), task.shape(tensor, workload),
                task.dtype(tensor, workload), bytes, shared_place(fill, tensor, seed));
  }
  if (alter) inputs.mixture = alter(inputs.bytes);
  decode_inputs(task, workload, inputs, true);
  if (task.derived) derive_inputs(*library, task, workload, inputs);
  return inputs;
}

Inputs similar_inputs(const TaskReference& library, const Task& task, const Workload& workload,
                      const Inputs& like, std::uint64_t seed) {
  Inputs inputs;
  inputs.bytes = like.bytes;
  perturb_values(task, workload, seed, inputs.bytes);
  decode_inputs(task, workload, inputs, true);
  if (task.derived) derive_inputs(library, task, workload, inputs);
  return inputs;
}

void decode_inputs(const Task& task, const Workload& workload, Inputs& inputs) {
  decode_inputs(task, workload, inputs, false);
}

Oracle::Oracle(const TaskReference& reference, const Task& task, const Workload& workload, int threads)
    : reference_(reference), layout_(task, workload), workload_(task, workload), threads_(threads) {}

std::vector<double> Oracle::rows(RowFunction function, const InputView& inputs,
                                 std::span<const std::int64_t> rows) const {
  std::vector<double> out(layout_.values_of(rows));
  this->rows(function, inputs, rows, out);
  return out;
}

void Oracle::rows(RowFunction function, const InputView& inputs, std::span<const std::int64_t> rows,
                  std::span<double> out, int rounding) const {
  reference_.program().compute(function,
                               {.workload = workload_,
                                .layout = layout_,
                                .inputs = inputs,
                                .rows = rows,
                                .threads = threads_,
                                .gives_way = gives_way_,
                                .rounding = rounding},
                               out);
}

std::vector<double, HugePages<double>> Oracle::derived(const RowLayout& derived,
                                                       const InputView& inputs) const {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(derived.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<double, HugePages<double>> out(derived.values_of(rows));
  reference_.program().compute(reference_.derived(),
                               {.workload = workload_,
                                .layout = derived,
                                .inputs = inputs,
                                .rows = rows,
                                .threads = threads_,
                                .gives_way = gives_way_},
                               out);
  return out;
}

IndexRule Oracle::index_rule(const InputView& inputs) const {
  if (reference_.index_rule() == nullptr) return {};
  const auto asked = [this, inputs](std::span<const std::int64_t> rows) {
    return RowsAsked{.workload = workload_,
                     .layout = layout_,
                     .inputs = inputs,
                     .rows = rows,
                     .threads = threads_,
                     .gives_way = gives_way_};
  };
  IndexRule rule;
  rule.right = [this, asked](std::span<const IndexAnswer> answers) {
    std::vector<IndexAnswer> own(answers.begin(), answers.end());
    for (IndexAnswer& answer : own) answer.unit = workload_.permitted_unit;
    std::vector<double> verdicts(answers.size());
    RowsAsked question = asked({});
    question.answers = own;
    reference_.program().compute(reference_.index_rule(), question, verdicts);
    std::vector<bool> right;
    for (const double verdict : verdicts) right.push_back(verdict == 1.0);
    return right;
  };
  if (reference_.program().follows_indices())
    rule.follow = [this, asked](RowFunction function, std::span<const std::int64_t> rows,
                                std::span<const double> given) {
      std::vector<double> values(given.size());
      RowsAsked question = asked(rows);
      question.given = given;
      reference_.program().compute(function, question, values);
      return values;
    };
  return rule;
}

Expected<TaskReference> open_reference(const Task& task, const std::filesystem::path& cache,
                                       const std::string& python, double deadline_s) {
  const std::string language = task.reference.extension();
  if (language == ".cpp") return open_cpp_reference(task, cache, deadline_s);
  if (language == ".py") return open_python_reference(task, cache, python, deadline_s);
  return failure("oracle", fmt::format("{}: no reference is written in this language (C++: reference.cpp; "
                                       "PyTorch: reference.py)",
                                       task.reference.string()));
}

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
