#include "evaluators/judge/stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <thread>

#include "evaluators/system/secret.hpp"
#include "evaluators/timing/input_pool.hpp"
#include "evaluators/timing/timing_stock.hpp"

namespace cultivar {
namespace {

constexpr int kDeterminismRuns = 3;
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
  CheckInputs(const Task& task, const Workload& workload, std::uint64_t seed, const StressCase* stress,
              const std::shared_ptr<TimingStock>& stock, InputSource source) {
    if (stress != nullptr)
      own_ = make_inputs(task, workload, seed, stress->fills);
    else if (stock && input_bytes(task, workload) >= kLargeInputs && source == InputSource::windows)
      pool_.emplace(task, workload, seed, stock->stretches);
    else if (stock && input_bytes(task, workload) >= kLargeInputs)
      pool_.emplace(task, workload, seed, stock->inputs);
    else
      own_ = make_inputs(task, workload, seed);
  }
  RunInputs runs() const { return pool_ ? pool_->inputs() : RunInputs(own_.bytes); }
  InputView view() const { return pool_ ? pool_->view() : own_.view(); }

 private:
  Inputs own_;
  std::optional<InputPool> pool_;
};

std::string remedy_for(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::load_failed:
      return "The compiled code could not be loaded: check that the kernel named in `launch` is "
             "defined with C linkage and that all its symbols are defined.";
    case Fault::Kind::crashed:
      return "Look for indices beyond a buffer, unaligned vector loads, deep recursion or large "
             "arrays on the stack, for this shape.";
    case Fault::Kind::timed_out:
      return "Look for loops that do not end for this shape, and for threads that wait for each "
             "other.";
    case Fault::Kind::forbidden_call:
      return "A kernel may only compute: no files, no processes, no threads, no memory "
             "mapping. If it needs memory, declare a `workspace` in the manifest.";
    case Fault::Kind::guard_overwritten:
      return "The kernel wrote outside a buffer. Check the last tile of shapes that are not "
             "multiples of the tile.";
    case Fault::Kind::input_changed:
      return "Inputs are read-only: put intermediate values into a `workspace`.";
    case Fault::Kind::idle_activity:
      return "The kernel worked after it had returned: do all work inside the call.";
    case Fault::Kind::out_of_memory:
      return "The kernel needs more memory than the device can provide.";
    case Fault::Kind::launch_failed:
      return "The launch could not be started as declared in the manifest.";
    case Fault::Kind::too_short:
      return "The run is too short to be timed reliably: use a larger workload.";
    case Fault::Kind::unsupported:
    case Fault::Kind::contender_failed:
      return "The message comes from the contender's library.";
  }
  return {};
}

// Checks that constraints hold and that every expression of the manifest has a launchable value.
tl::expected<Plan, Evaluation> legal_plan(const Variant& variant, const Task& task, const Workload& workload,
                                          const Facts& facts, const std::string& where) {
  if (const Expected<void> holds = check_constraints(variant, task, workload, facts); !holds)
    return tl::make_unexpected(
        rejection(Stage::lint, "a constraint does not hold on " + where,
                  holds.error().message +
                      "\nThe variant claims this shape: change the tunables or narrow `requires`.\n"));
  Expected<Plan> plan = make_plan(variant, task, workload, facts);
  if (!plan)
    return tl::make_unexpected(rejection(Stage::lint, "no legal plan on " + where, plan.error().message));
  return std::move(*plan);
}

std::string rows_note(const RowLayout& layout, std::size_t rows) {
  if (static_cast<std::int64_t>(rows) == layout.rows()) return {};
  return fmt::format("({} of {} rows were compared)\n", rows, layout.rows());
}

}  // namespace

const Binary* Compiled::binary(const std::vector<std::string>& wanted) const {
  for (const Binary& b : binaries)
    if (b.macros == wanted) return &b;
  return nullptr;
}

std::vector<Workload> check_shapes(const Task& task, Stage stage, Target target) {
  const std::vector<Workload>& shapes = stage == Stage::smoke    ? task.smoke
                                        : stage == Stage::sweep  ? task.sweep
                                        : stage == Stage::stress ? task.stress_shapes
                                                                 : task.edge;
  std::vector<Workload> all;
  for (const Workload& shape : shapes) {
    for (const Dtype dtype : target->dtypes) {
      if (std::find(task.dtypes.begin(), task.dtypes.end(), dtype) == task.dtypes.end()) continue;
      Workload& w = all.emplace_back(shape);
      w.dtype = dtype;
      if (shape.name.find(name_of(dtype)) == std::string::npos) w.name += fmt::format("_{}", name_of(dtype));
    }
  }
  return all;
}

std::vector<Workload> claimed_shapes(const Task& task, Stage stage, const Variant& variant) {
  std::vector<Workload> shapes = check_shapes(task, stage, variant.manifest.target);
  std::erase_if(shapes, [&](const Workload& w) { return !claims(variant, task, w); });
  return shapes;
}

std::vector<Workload> holdout_workloads(const Task& task, const Variant& variant) {
  const std::vector<Dtype>& dtypes = variant.manifest.target->dtypes;
  const WorkloadSet* own = task.workloads(fmt::format("{}_holdout", name_of(variant.manifest.target)));
  const WorkloadSet* set = own != nullptr ? own : task.workloads("holdout");
  if (set == nullptr) return {};
  std::vector<Workload> workloads = set->workloads;
  std::erase_if(workloads, [&](const Workload& w) {
    return std::find(dtypes.begin(), dtypes.end(), w.dtype) == dtypes.end() || !claims(variant, task, w);
  });
  return workloads;
}

std::vector<Workload> every_claimed_shape(const Task& task, const Variant& variant) {
  std::vector<Workload> all;
  for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::edge})
    std::ranges::copy(claimed_shapes(task, stage, variant), std::back_inserter(all));
  std::ranges::copy(holdout_workloads(task, variant), std::back_inserter(all));
  return all;
}

std::vector<std::vector<std::string>> macro_assignments(const Task& task, const Variant& variant,
                                                        const std::vector<Workload>& workloads,
                                                        Breadth breadth) {
  std::vector<std::vector<std::string>> assignments;
  const auto add = [&](const Workload& w) {
    std::vector<std::string> assignment = macros(variant, task, w);
    if (std::find(assignments.begin(), assignments.end(), assignment) == assignments.end())
      assignments.push_back(std::move(assignment));
  };
  const auto has = [&](const Workload& w) {
    return std::find(assignments.begin(), assignments.end(), macros(variant, task, w)) != assignments.end();
  };
  for (const Workload& w : workloads) add(w);
  if (breadth == Breadth::everything) {
    for (const Workload& w : every_claimed_shape(task, variant)) add(w);
  } else {
    for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::edge}) {
      const std::vector<Workload> shapes = claimed_shapes(task, stage, variant);
      if (!shapes.empty() && std::none_of(shapes.begin(), shapes.end(), has)) add(shapes.front());
    }
  }
  const std::vector<Workload> smoke = claimed_shapes(task, Stage::smoke, variant);
  for (const Workload& w : smoke) {
    const auto found = std::find(assignments.begin(), assignments.end(), macros(variant, task, w));
    if (found == assignments.end()) continue;
    std::rotate(assignments.begin(), found, found + 1);
    break;
  }
  return assignments;
}

std::optional<Evaluation> illegal_on_check_shapes(const Task& task, const Variant& variant,
                                                  const std::vector<Workload>& workloads,
                                                  const Facts& facts) {
  const auto compiled = macro_assignments(task, variant, workloads, Breadth::searching);
  for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::edge})
    for (const Workload& shape : claimed_shapes(task, stage, variant)) {
      if (std::ranges::find(compiled, macros(variant, task, shape)) == compiled.end()) continue;
      const std::string where = fmt::format("the check shape {} ({})", shape.name, name_of(stage));
      if (auto plan = legal_plan(variant, task, shape, facts, where); !plan) return std::move(plan.error());
    }
  return std::nullopt;
}

std::vector<std::int64_t> rows_to_check(const Task& task, const Workload& workload, const RowLayout& layout,
                                        double oracle_flops, std::uint64_t seed) {
  const std::int64_t block_rows = std::max<std::int64_t>(1, task.tolerance.block_rows);
  const std::int64_t blocks = (layout.rows() + block_rows - 1) / block_rows;
  const double share = std::min(1.0, oracle_flops / std::max(1.0, task.flops(workload)));
  const auto wanted = std::min(
      blocks, std::max<std::int64_t>(4, static_cast<std::int64_t>(share * static_cast<double>(blocks))));
  std::set<std::int64_t> chosen = {0, blocks - 1};
  std::mt19937_64 stream(seed);
  if (wanted == blocks)
    for (std::int64_t b = 0; b < blocks; ++b) chosen.insert(b);
  while (static_cast<std::int64_t>(chosen.size()) < wanted)
    chosen.insert(static_cast<std::int64_t>(stream() % static_cast<std::uint64_t>(blocks)));
  std::vector<std::int64_t> rows;
  for (const std::int64_t b : chosen)
    for (std::int64_t r = b * block_rows; r < std::min(layout.rows(), (b + 1) * block_rows); ++r)
      rows.push_back(r);
  return rows;
}

bool may_be_noise(Fault::Kind kind) {
  return kind == Fault::Kind::idle_activity || kind == Fault::Kind::too_short;
}

Evaluation rejection_of(Stage stage, const Fault& fault, const std::string& where) {
  std::string kind(name_of(fault.kind));
  std::replace(kind.begin(), kind.end(), '_', ' ');
  Evaluation e = rejection(stage, fmt::format("{} on {}", kind, where),
                           fmt::format("{}: {}\n{}\n", where, fault.detail, remedy_for(fault.kind)));
  e.late = fault.kind == Fault::Kind::timed_out;
  return e;
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
                                                                const std::string& where, double deadline_s) {
  const Binary* binary = compiled.binary(macros(compiled.variant, task, workload));
  if (binary == nullptr)
    return tl::make_unexpected(
        rejection(stage, "not compiled for " + where,
                  "This assignment of the specialized macros was not compiled: request it from the compile "
                  "service (Breadth::everything for confirm).\n"));
  const auto plan = legal_plan(compiled.variant, task, workload, device.facts(), where);
  if (!plan) return tl::make_unexpected(plan.error());
  auto session = device.open(*binary, *plan, deadline_s);
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
  std::erase_if(shapes, [&](const Workload& w) {
    return compiled.binary(macros(compiled.variant, task_, w)) == nullptr;
  });
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
      if (auto wrong = check(stage, compiled, w, derive_seed(seed, name_of(stage), index++))) return wrong;
      continue;
    }
    for (const StressCase& stress : task_.stress) {
      progress({stage, {}, fmt::format("stress {} {}", w.name, stress.name)});
      if (auto wrong = check(stage, compiled, w, derive_seed(seed, "stress", index++), &stress)) return wrong;
    }
  }
  return std::nullopt;
}

std::optional<Evaluation> Checker::check(Stage stage, const Compiled& compiled, const Workload& workload,
                                         std::uint64_t seed, const StressCase* stress) {
  const std::string where =
      stress == nullptr ? workload.name : fmt::format("{} ({})", workload.name, stress->name);
  const CheckInputs inputs(task_, workload, seed, stress, limits_.stock, input_source_of(device_));
  size_outputs(task_, workload, outputs_);
  RunOptions options;
  options.deadline_s = limits_.run_deadline_s;
  std::size_t unwritten = 0;
  for (int attempt = 1;; ++attempt) {
    if (!kept_ || kept_shape_ != workload.name) {
      kept_.reset();
      auto opened =
          open_ ? open_()
                : open_session(device_, stage, task_, compiled, workload, where, limits_.run_deadline_s);
      if (!opened) return opened.error();
      kept_ = std::move(*opened);
      kept_shape_ = workload.name;
    }
    options.poison_seed = derive_seed(seed, "poison", static_cast<std::uint64_t>(attempt));
    const auto ran = kept_->run(inputs.runs(), outputs_, options);
    unwritten = kept_->unwritten_elements();
    if (ran) break;
    kept_.reset();
    if (!may_be_noise(ran.error().kind) || attempt == kNoiseLimit)
      return rejection_of(stage, ran.error(), where);
  }

  const RowLayout layout(task_, workload);
  Oracle oracle(oracle_, task_, workload, cores_of(device_.facts()));
  if (device_.apart_from_host()) oracle.give_way();
  const std::vector<std::int64_t> rows =
      rows_to_check(task_, workload, layout, limits_.oracle_flops, derive_seed(seed, "rows"));
  const std::vector<double> exact = oracle.rows(oracle_.exact(), inputs.view(), rows, layout.row_elements());
  ExpectedRows expected{rows, exact, {}};
  const bool many =
      static_cast<double>(rows.size()) * task_.flops(workload) / static_cast<double>(layout.rows()) >
      kManyFlops;
  if (oracle_.rounded() != nullptr && stress == nullptr && limits_.stock && many)
    expected.wider = [&] {
      return legal_errors_of(*limits_.stock, oracle_, task_, workload, layout, oracle, inputs.view(),
                             derive_seed(seed, "wider"));
    };
  if (oracle_.rounded() != nullptr)
    expected.rounded = [&] {
      return oracle.rows(oracle_.rounded(), inputs.view(), rows, layout.row_elements());
    };
  const Comparison compared = compare(task_, layout, outputs_, expected);

  std::string diagnostics;
  if (stress != nullptr && !stress->about.empty())
    diagnostics = fmt::format("stress case {}: {}\n", stress->name, stress->about);
  if (too_many_unwritten(layout, unwritten))
    return rejection(stage, fmt::format("output elements not written on {}", where),
                     diagnostics + describe_unwritten(layout, unwritten) + compared.diagnostics);
  if (!compared.right)
    return rejection(stage, fmt::format("wrong result on {}: {}", where, compared.reason),
                     diagnostics + compared.diagnostics + rows_note(layout, rows.size()));
  return std::nullopt;
}

std::optional<Evaluation> Checker::check_determinism(const Compiled& compiled, const Workload& workload,
                                                     std::uint64_t seed) {
  std::unique_ptr<Session> session;
  int noise = 0;
  const Inputs inputs = make_inputs(task_, workload, seed);
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
    else if (outputs != first) {
      std::string places;
      for (std::size_t t = 0; t < first.size(); ++t) {
        const OutputLayout& output = layout.outputs()[t];
        const auto [a, b] = std::mismatch(first[t].begin(), first[t].end(), outputs[t].begin());
        if (a == first[t].end()) continue;
        places += fmt::format("the first element that differs is {}\n",
                              layout.describe(output, (a - first[t].begin()) /
                                                          static_cast<std::int64_t>(size_of(output.dtype))));
      }
      return rejection(
          Stage::determinism, fmt::format("two runs on the same inputs differ on {}", workload.name),
          fmt::format("Run 1 and run {} had the same inputs but gave different bits.\n{}Look for data races "
                      "between threads, reads of memory that was not written in this run, and sums whose "
                      "order depends on timing.\n",
                      i, places));
    }
  }
  return std::nullopt;
}

}  // namespace cultivar
