// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/stages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "evaluators/check/compare.hpp"
#include "evaluators/check/oracle.hpp"
#include "evaluators/judge/check_build_runs.hpp"
#include "evaluators/judge/outcomes.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/timing/input_pool.hpp"
#include "evaluators/timing/timing_stock.hpp"

namespace cultivar {
namespace {

constexpr int kDeterminismRuns = 3;
constexpr std::uint64_t kPlacements = 3;  // the most that a target has
// Where few roundings decide all values, R of one set of inputs may be small by chance. How many further sets
// are drawn: at most, and those that are drawn however long they take.
constexpr std::uint64_t kMostSimilar = 128, kFewestSimilar = 4;
// Before them for composed values, and in their place for inputs of timed runs, of which there are no similar
// ones: R of the same inputs in arithmetic that rounds in each of these
// directions, and that has no numbers below the smallest normal one. Where equal values cancel, what one
// order of a sum loses may decide everything, and R's order loses nothing.
constexpr int kDirections[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, kFlushing};
constexpr double kSimilarSeconds = 5.0;
// Drawing this many bytes for one check takes longer than all the rest of the check.
constexpr std::size_t kLargeInputs = std::size_t{64} << 20;
// Above this amount of oracle work, R of the workload is used before R of the compared rows, which costs
// three times the oracle.
constexpr double kManyFlops = 1e9;

std::size_t input_bytes(const Task& task, const Workload& workload) {
  std::size_t bytes = 0;
  for (const TensorSpec& tensor : task.tensors)
    if (tensor.role == Role::input) bytes += task.bytes_of(tensor, workload);
  return bytes;
}

// The inputs of a check: drawn only for it, or as those of timed runs.
class CheckInputs {
 public:
  CheckInputs(const TaskReference& library, const Task& task, const Workload& workload, std::uint64_t seed,
              const CheckValues& values, const CheckLimits& limits, InputSource source, int threads) {
    const auto& stock = limits.stock;
    const std::size_t bytes = input_bytes(task, workload);
    const bool large = stock && bytes >= kLargeInputs && !(values.mixed && bytes <= limits.mixed_bytes);
    if (values.stress != nullptr)
      own_ = make_inputs(&library, task, workload, seed, values.stress->fills);
    else if (values.composed && bytes <= kComposedBytes)
      own_ = composed_inputs(library, task, workload, seed, threads, values.kind, limits.thresholds,
                             values.tried_rows);
    else if (large && source == InputSource::windows)
      pool_.emplace(task, workload, seed, stock->stretches,
                    kept_inputs(*stock, library, task, workload, seed));
    else if (large)
      pool_.emplace(task, workload, seed, stock->inputs, kept_inputs(*stock, library, task, workload, seed));
    else
      own_ = make_inputs(&library, task, workload, seed, {},
                         values.mixed ? std::optional(derive_seed(seed, "mixture")) : std::nullopt);
  }
  const std::string& mixture() const { return own_.mixture; }  // empty: plain values
  bool from_pool() const { return pool_.has_value(); }
  const Inputs& own() const { return own_; }  // unless from a pool
  RunInputs runs() const { return pool_ ? pool_->inputs() : RunInputs(own_.bytes); }
  InputView view() const { return pool_ ? pool_->view() : own_.view(); }

 private:
  Inputs own_;
  std::optional<InputPool> pool_;
};

// How a message names the run: "R37_C1000_f32 (rising)".
std::string name_of_run(const Workload& workload, const CheckValues& values, bool changed) {
  std::vector<std::string> notes;
  if (values.drawn_shape) notes.push_back("a drawn shape");
  if (values.stress != nullptr) notes.push_back(values.stress->name);
  if (changed) notes.push_back(values.composed ? "composed values" : "mixed values");
  return notes.empty() ? workload.name : fmt::format("{} ({})", workload.name, fmt::join(notes, ", "));
}

std::string values_note(const CheckValues& values, const std::string& mixture) {
  std::string note;
  if (values.stress != nullptr && !values.stress->about.empty())
    note = fmt::format("stress case {}: {}\n", values.stress->name, values.stress->about);
  if (!mixture.empty())
    note += fmt::format("Drawn for this run, over the values of the task's fills:\n{}", mixture);
  return note;
}

// "The plan was that of another machine: num_cores = 1, l2_bytes = 262144."
std::string machine_note(const Compiled& compiled, const Facts& here, std::uint64_t machine) {
  if (machine == 0) return {};
  std::string names;
  for (const auto& [name, value] : facts_of(compiled.variant, here, machine))
    if (here.at(name) != value) names += fmt::format("{}{} = {}", names.empty() ? "" : ", ", name, value);
  return names.empty() ? names : fmt::format("The plan was that of another machine, with {}.\n", names);
}

std::string rows_note(const RowLayout& layout, std::size_t rows) {
  if (static_cast<std::int64_t>(rows) == layout.rows()) return {};
  return fmt::format("({} of {} rows were compared)\n", rows, layout.rows());
}

}  // namespace

const Binary* Compiled::binary(const std::vector<std::string>& wanted) const {
  const auto found = std::ranges::find(binaries, wanted, &Binary::macros);
  return found == binaries.end() ? nullptr : &*found;
}

const Binary* Compiled::check_build(const std::vector<std::string>& wanted) const {
  const auto found = std::ranges::find(check_builds, wanted, &Binary::macros);
  return found == check_builds.end() ? nullptr : &*found;
}

std::vector<std::int64_t> rows_to_check(const Task& task, const Workload& workload, const RowLayout& layout,
                                        double oracle_flops, std::uint64_t seed) {
  const std::int64_t block_rows = std::max<std::int64_t>(1, task.tolerance.block_rows);
  // Less than a row costs the oracle, however short it is.
  constexpr double kLeastRowFlops = 24.0;
  const double share =
      std::min(1.0, oracle_flops /
                        std::max(kLeastRowFlops * static_cast<double>(layout.rows()), task.flops(workload)));
  std::mt19937_64 stream(seed);
  std::vector<std::int64_t> rows;
  for (const RowGroup& group : layout.groups()) {
    const std::int64_t blocks = (group.rows + block_rows - 1) / block_rows;
    const auto wanted = std::min(
        blocks, std::max<std::int64_t>(4, static_cast<std::int64_t>(share * static_cast<double>(blocks))));
    std::set<std::int64_t> chosen = {0, blocks - 1};
    if (wanted == blocks)
      for (std::int64_t b = 0; b < blocks; ++b) chosen.insert(b);
    while (static_cast<std::int64_t>(chosen.size()) < wanted)
      chosen.insert(static_cast<std::int64_t>(stream() % static_cast<std::uint64_t>(blocks)));
    for (const std::int64_t b : chosen)
      for (std::int64_t r = b * block_rows; r < std::min(group.rows, (b + 1) * block_rows); ++r)
        rows.push_back(group.first + r);
  }
  return rows;
}

int cores_of(const Facts& facts) {
  const auto cores = facts.find("num_cores");
  // Several workers share a card, and the one that times needs a core for itself.
  if (cores == facts.end()) return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 2 - 1);
  return std::max(1, static_cast<int>(cores->second));
}

tl::expected<std::unique_ptr<Session>, Evaluation> open_session(Device& device, Stage stage, const Task& task,
                                                                const Compiled& compiled,
                                                                const Workload& workload,
                                                                const std::string& where, double deadline_s,
                                                                bool in_place, std::uint64_t machine) {
  const Binary* binary = compiled.binary(macros(compiled.variant, task, workload));
  if (binary == nullptr)
    return tl::make_unexpected(
        rejection(stage, "not compiled for " + where,
                  "This assignment of the specialized macros was not compiled: request it from the compile "
                  "service (Breadth::everything for confirm).\n"));
  const auto plan = legal_plan(compiled.variant, task, workload,
                               facts_of(compiled.variant, device.facts(), machine), where);
  if (!plan) return tl::make_unexpected(plan.error());
  auto session = device.open(*binary, in_place ? cultivar::in_place(task, *plan) : *plan, deadline_s);
  if (std::error_code ignored; !session && !std::filesystem::exists(binary->path, ignored))
    return tl::make_unexpected(
        host_rejection(stage, HostFault::cache_lost,
                       fmt::format("{}: {} does not exist any more. It is compiled again.\n", where,
                                   binary->path.string())));
  if (!session) return tl::make_unexpected(rejection_of(stage, session.error(), where));
  return std::move(*session);
}

void size_outputs(const Task& task, const Workload& workload, std::vector<std::vector<std::byte>>& outputs) {
  std::size_t next = 0;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::output) continue;
    if (next == outputs.size()) outputs.emplace_back();
    outputs[next++].resize(task.bytes_of(tensor, workload));
  }
}

std::vector<std::vector<std::byte>> output_buffers(const Task& task, const Workload& workload) {
  std::vector<std::vector<std::byte>> outputs;
  size_outputs(task, workload, outputs);
  return outputs;
}

std::optional<Evaluation> Checker::run_stage(Stage stage, const Compiled& compiled, std::uint64_t seed,
                                             const Announce& progress) {
  const Stage shapes_of = stage == Stage::determinism ? Stage::sweep : stage;
  std::vector<Workload> shapes = claimed_shapes(task_, shapes_of, compiled.variant);
  const std::size_t missing = std::erase_if(shapes, [&](const Workload& w) {
    return compiled.binary(macros(compiled.variant, task_, w)) == nullptr;
  });
  if (stage != Stage::determinism) checked_.left_out += static_cast<std::int64_t>(missing);
  const auto other = [&](const Workload& w) {
    return std::ranges::find(limits_.dtypes, w.dtype) == limits_.dtypes.end();
  };
  if (!std::ranges::all_of(shapes, other)) std::erase_if(shapes, other);
  std::uint64_t index = 0;
  kept_.reset();
  if (stage == Stage::determinism) {
    if (shapes.empty()) return std::nullopt;
    const Workload& largest = task_.most_expensive(shapes);
    progress({stage, {}, fmt::format("determinism {}", largest.name)});
    return check_determinism(compiled, largest, derive_seed(seed, "determinism"));
  }
  for (const Workload& w : shapes) {
    if (stage != Stage::stress) {
      progress({stage, {}, fmt::format("{} {}", name_of(stage), w.name)});
      const std::uint64_t own = derive_seed(seed, name_of(stage), index);
      // The first run, in every placement: a wrong access is found at once, whichever way it goes.
      if (stage == Stage::smoke && index == 0)
        for (std::uint64_t placement = 0; placement < kPlacements; ++placement)
          if (auto wrong =
                  check_at(placement, stage, compiled, w, derive_seed(own, "placement", placement), {}))
            return wrong;
      const CheckValues values{.mixed = stage != Stage::smoke && derive_seed(own, "mixed") % 2 == 0};
      if (stage != Stage::smoke || index != 0)
        if (auto wrong = check(stage, compiled, w, own, values)) return wrong;
      ++index;
      continue;
    }
    for (const StressCase& stress : task_.stress) {
      progress({stage, {}, fmt::format("stress {} {}", w.name, stress.name)});
      if (auto wrong = check(stage, compiled, w, derive_seed(seed, "stress", index++), {.stress = &stress}))
        return wrong;
    }
    if (auto wrong = check(stage, compiled, w, derive_seed(seed, "stress", index++), {.composed = true}))
      return wrong;
  }
  return std::nullopt;
}

std::optional<Evaluation> Checker::check(Stage stage, const Compiled& compiled, const Workload& workload,
                                         std::uint64_t seed, const CheckValues& values) {
  return check_at(derive_seed(seed, "placement"), stage, compiled, workload, seed, values);
}

std::optional<Evaluation> Checker::check_at(std::uint64_t placement, Stage stage, const Compiled& compiled,
                                            const Workload& workload, std::uint64_t seed,
                                            const CheckValues& values) {
  const CheckInputs inputs(oracle_, task_, workload, seed, values, limits_, input_source_of(device_),
                           cores_of(device_.facts()));
  const bool plain = values.stress == nullptr && inputs.mixture().empty();
  const std::string where = name_of_run(workload, values, !inputs.mixture().empty());
  size_outputs(task_, workload, outputs_);
  RunOptions options;
  options.deadline_s = limits_.run_deadline_s;
  options.placement = placement;
  // What may be computed in place is, in about half of the runs.
  const bool in_place =
      (placement / 2 + placement) % 2 == 1 && !open_ &&
      std::ranges::any_of(task_.tensors, [](const TensorSpec& t) { return !t.in_place.empty(); });
  const std::string shape = fmt::format("{} {} {}", workload.name, in_place, values.machine);
  std::size_t unwritten = 0;
  for (int attempt = 1;; ++attempt) {
    if (!kept_ || kept_shape_ != shape) {
      kept_.reset();
      auto opened = open_ ? open_()
                          : open_session(device_, stage, task_, compiled, workload, where,
                                         limits_.run_deadline_s, in_place, values.machine);
      if (!opened) return opened.error();
      kept_ = std::move(*opened);
      kept_shape_ = shape;
    }
    options.poison_seed = derive_seed(seed, "poison", static_cast<std::uint64_t>(attempt));
    if (stage == Stage::smoke)  // the first shape has both kinds, one after the other
      options.poison_seed =
          RunOptions::same_poison(placement % 2 == 0 ? RunOptions::nan_poison : 0, options.poison_seed);
    const auto ran = kept_->run(inputs.runs(), outputs_, options);
    unwritten = kept_->unwritten_elements();
    if (ran) break;
    kept_.reset();
    if (!may_be_noise(ran.error().kind) || attempt == kNoiseLimit)
      return rejection_of(stage, ran.error(), where);
  }

  const RowLayout layout(task_, workload);
  Oracle oracle(oracle_, task_, workload, cores_of(device_.facts()));
  if (device_.apart_from_host() && !limits_.awaited) oracle.give_way();
  std::vector<std::int64_t> rows =
      rows_to_check(task_, workload, layout, limits_.oracle_flops, derive_seed(seed, "rows"));
  std::erase_if(rows, [&](std::int64_t row) { return row < limits_.first_row; });
  const auto computed = [&](RowFunction function) {
    return [&, function](std::span<const std::int64_t> some, std::span<double> out) {
      oracle.rows(function, inputs.view(), some, out);
    };
  };
  const bool composed = values.composed && !plain && !inputs.from_pool();
  RowsInPieces expected{rows, computed(oracle_.exact()), {}};
  expected.right_indices = oracle.index_rule(inputs.view());
  const bool many =
      static_cast<double>(rows.size()) * task_.flops(workload) / static_cast<double>(layout.rows()) >
      kManyFlops;
  if (oracle_.rounded() != nullptr) expected.rounded = computed(oracle_.rounded());
  if (oracle_.rounded() != nullptr && plain && limits_.stock && many)
    expected.wider = [&] {
      return legal_errors_of(*limits_.stock, oracle_, task_, workload, layout, oracle, inputs.view(),
                             derive_seed(seed, "wider"));
    };
  if (oracle_.rounded() != nullptr)
    expected.similar = [&, drawn = std::uint64_t{0},
                        directions =
                            composed || inputs.from_pool() ? std::span(kDirections) : std::span<const int>(),
                        begin = std::chrono::steady_clock::time_point{}]() mutable {
      if (!directions.empty()) {
        const int direction = directions.front();
        directions = directions.subspan(1);
        return std::optional(RowsInPieces::Similar{
            expected.exact, [&, direction](std::span<const std::int64_t> some, std::span<double> out) {
              oracle.rows(oracle_.rounded(), inputs.view(), some, out, direction);
            }});
      }
      if (inputs.from_pool()) return std::optional<RowsInPieces::Similar>();
      const auto now = std::chrono::steady_clock::now();
      if (drawn == 0) begin = now;
      const bool late = std::chrono::duration<double>(now - begin).count() > kSimilarSeconds;
      return drawn == kMostSimilar || (drawn >= kFewestSimilar && late)
                 ? std::nullopt
                 : std::optional(
                       similar_rows(workload, oracle, inputs.own(), derive_seed(seed, "similar", drawn++)));
    };
  std::optional<Task> wider;
  if (const double more = values.drawn_shape ? wider_errors(task_, workload, listed_sums_) : 1.0; more > 1.0)
    wider = loosened(composed ? loose_ : task_, more);
  const Comparison compared = compare_in_pieces(wider      ? *wider
                                                : composed ? loose_
                                                           : task_,
                                                layout, outputs_, expected);

  if (!compared.right && composed) {
    CheckValues again = values;
    again.tried_rows.insert(again.tried_rows.end(), compared.wrong_rows.begin(), compared.wrong_rows.end());
    std::ranges::sort(again.tried_rows);
    const auto repeated = std::unique(again.tried_rows.begin(), again.tried_rows.end());
    again.tried_rows.erase(repeated, again.tried_rows.end());
    // Perhaps nobody tried on these rows whether a sound computation bears the values.
    if (again.tried_rows != values.tried_rows) {
      const CheckInputs tried(oracle_, task_, workload, seed, again, limits_, input_source_of(device_),
                              cores_of(device_.facts()));
      if (tried.own().bytes != inputs.own().bytes)
        return check_at(placement, stage, compiled, workload, seed, again);
    }
  }
  const std::string diagnostics =
      values_note(values, inputs.mixture()) + machine_note(compiled, device_.facts(), values.machine);
  if (too_many_unwritten(layout, unwritten))
    return rejection(stage, fmt::format("output elements not written on {}", where),
                     diagnostics + describe_unwritten(layout, unwritten) + compared.diagnostics);
  if (!compared.right)
    return rejection(stage, fmt::format("wrong result on {}: {}", where, compared.reason),
                     diagnostics + compared.diagnostics + rows_note(layout, rows.size()));
  ++checked_.runs;
  if (shapes_.insert(workload.name).second)
    for (const auto& [name, value] : workload.values) {
      auto& range = checked_.ranges.try_emplace(name, value, value).first->second;
      range = {std::min(range.first, value), std::max(range.second, value)};
    }
  if (!compiled.is_library()) specialisations_.insert(macros(compiled.variant, task_, workload));
  if (limits_.check_builds != nullptr && limits_.check_builds->wanted(compiled, workload)) {
    const CheckBuildRuns::Compare again = [&](const Task& loose,
                                              const std::vector<std::vector<std::byte>>& outputs) {
      return compare_in_pieces(loose, layout, outputs, expected);
    };
    return limits_.check_builds->repeat(stage, compiled, workload, inputs.runs(), where, seed,
                                        many ? CheckBuildRuns::Compare() : again);
  }
  return std::nullopt;
}

Task loosened(Task task, double factor) {
  task.tolerance.factor *= factor;
  task.tolerance.floor_eps *= factor;
  return task;
}

Checked Checker::checked() const {
  Checked all = checked_;
  all.shapes = static_cast<std::int64_t>(shapes_.size());
  all.specialisations = static_cast<std::int64_t>(specialisations_.size());
  return all;
}

RowsInPieces::Similar Checker::similar_rows(const Workload& workload, const Oracle& oracle,
                                            const Inputs& like, std::uint64_t seed) const {
  const auto inputs = std::make_shared<const Inputs>(similar_inputs(oracle_, task_, workload, like, seed));
  const auto computed = [&](RowFunction function) {
    return [&oracle, inputs, function](std::span<const std::int64_t> some, std::span<double> out) {
      oracle.rows(function, inputs->view(), some, out);
    };
  };
  return {computed(oracle_.exact()), computed(oracle_.rounded())};
}

std::vector<LegalError> Checker::legal_errors_on(const Workload& workload, const RowLayout& layout,
                                                 const Inputs& inputs) const {
  if (oracle_.rounded() == nullptr) return std::vector<LegalError>(layout.outputs().size());
  const Oracle oracle(oracle_, task_, workload, cores_of(device_.facts()));
  const std::vector<std::int64_t> rows = rows_to_check(task_, workload, layout, limits_.oracle_flops, 0);
  const auto of = [&](RowFunction f) { return oracle.rows(f, inputs.view(), rows); };
  return legal_errors(layout, rows, of(oracle_.exact()), of(oracle_.rounded()));
}

std::optional<Evaluation> Checker::check_determinism(const Compiled& compiled, const Workload& workload,
                                                     std::uint64_t seed) {
  std::unique_ptr<Session> session;
  int noise = 0;
  const Inputs inputs = make_inputs(&oracle_, task_, workload, seed);
  const RowLayout layout(task_, workload);
  std::vector<std::vector<std::byte>> first;
  for (int i = 0; i < kDeterminismRuns;) {
    if (!session) {
      auto opened = open_session(device_, Stage::determinism, task_, compiled, workload, workload.name,
                                 limits_.run_deadline_s);
      if (!opened) return opened.error();
      session = std::move(*opened);
    }
    std::vector<std::vector<std::byte>> outputs = output_buffers(task_, workload);
    RunOptions options;
    options.poison_seed = derive_seed(seed, "poison", static_cast<std::uint64_t>(i));
    options.placement = static_cast<std::uint64_t>(i);
    options.deadline_s = limits_.run_deadline_s;
    const auto ran = session->run(inputs.bytes, outputs, options);
    if (!ran) {
      session.reset();
      if (!may_be_noise(ran.error().kind) || ++noise == kNoiseLimit)
        return rejection_of(Stage::determinism, ran.error(), workload.name);
      continue;
    }
    noise = 0;
    ++i;
    if (i == 1)
      first = std::move(outputs);
    else if (const std::string places = run_to_run_differences(
                 task_, layout, first, outputs, [&] { return legal_errors_on(workload, layout, inputs); });
             !places.empty()) {
      return rejection(
          Stage::determinism, fmt::format("two runs on the same inputs differ on {}", workload.name),
          fmt::format(
              "Run 1 and run {} had the same inputs but gave different outputs.\n{}Look for data races "
              "between threads, reads of memory that was not written in this run, and sums whose "
              "order depends on timing.\n",
              i, places));
    }
  }
  return std::nullopt;
}

}  // namespace cultivar
