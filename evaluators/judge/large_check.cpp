// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/large_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <set>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/judge/extents.hpp"
#include "evaluators/judge/foci.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {
namespace {

constexpr std::int64_t kBeyond = (std::int64_t{1} << 31) + 4096;  // elements in front of the last rows
constexpr std::int64_t kTail = 61;                                // rows: less than a block of compared rows
constexpr std::int64_t kLeastPeriod = std::int64_t{16} << 20, kMostPeriod = std::int64_t{192} << 20;
constexpr std::int64_t kLeastRow = 128;  // elements of the largest tensor; smaller rows take too long
constexpr double kMostFlops = 8e10;
constexpr double kComparedFlops = 5e7;
// Little more than other runs have: on a busy machine, and for a slow kernel, there is no result.
constexpr double kSecondsOfRun = 12.0;
constexpr std::uint64_t kMostMemory = std::uint64_t{512} << 20;  // of all buffers of a plan

std::int64_t elements_of(const Task& task, const TensorSpec& tensor, const Workload& workload) {
  std::int64_t count = 1;
  for (const std::int64_t extent : task.shape(tensor, workload)) count *= extent;
  return count;
}

std::int64_t largest_elements(const Task& task, const Workload& workload) {
  std::int64_t largest = 0;
  for (const TensorSpec& tensor : task.tensors)
    largest = std::max(largest, elements_of(task, tensor, workload));
  return largest;
}

std::optional<Workload> with(const Task& task, const Workload& like, const std::string& dimension,
                             std::int64_t rows) {
  Bindings given = given_values(task, like);
  given[dimension] = static_cast<double>(rows);
  const Expected<Workload> made = make_workload(task, std::move(given), like.dtype, true);
  return made ? std::optional(*made) : std::nullopt;
}

bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// Whether a row's result depends on nothing but the row: with the rows turned by some places so are the
// results, and fewer rows have the same results.
bool rows_are_independent(const Task& task, const TaskReference& library, const Workload& like,
                          const std::string& dimension) {
  constexpr std::int64_t kRows = 8, kTurned = 3, kFewer = 5;
  const auto all = with(task, like, dimension, kRows), few = with(task, like, dimension, kFewer);
  if (!all || !few) return false;
  const Inputs inputs = make_inputs(&library, task, *all, 1);
  Inputs turned, fewer;
  std::size_t next = 0;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    std::vector<std::byte> bytes = inputs.bytes[next++];
    if (std::ranges::find(tensor.shape, dimension) == tensor.shape.end()) {
      turned.bytes.push_back(bytes);
      fewer.bytes.push_back(std::move(bytes));
      continue;
    }
    const auto row = static_cast<std::ptrdiff_t>(bytes.size()) / kRows;
    fewer.bytes.emplace_back(bytes.begin(), bytes.begin() + kFewer * row);
    std::rotate(bytes.begin(), bytes.begin() + kTurned * row, bytes.end());
    turned.bytes.push_back(std::move(bytes));
  }
  decode_inputs(task, *all, turned);
  decode_inputs(task, *few, fewer);
  // Outputs with rows of their own have the dimension outermost as well, so their values are in the same
  // order.
  const auto values = [&](const Workload& workload, const Inputs& of) {
    const RowLayout layout(task, workload);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(layout.rows()));
    std::iota(rows.begin(), rows.end(), 0);
    return Oracle(library, task, workload, 1).rows(library.exact(), of.view(), rows);
  };
  const RowLayout layout(task, *all);
  if (layout.groups().size() != 1 || layout.groups()[0].names.front() != dimension) return false;
  const std::vector<double> exact = values(*all, inputs), of_turned = values(*all, turned),
                            of_fewer = values(*few, fewer);
  const std::size_t row = exact.size() / kRows;
  for (std::size_t i = 0; i < exact.size(); ++i)
    if (!same(of_turned[i], exact[(i + kTurned * row) % exact.size()])) return false;
  for (std::size_t i = 0; i < of_fewer.size(); ++i)
    if (!same(of_fewer[i], exact[i])) return false;
  return true;
}

// The rows of the repeated part, so that it has whole pages of each tensor; 0: too much memory.
std::int64_t period_of(const Task& task, const Workload& one_row, const std::string& dimension,
                       std::int64_t grain) {
  std::int64_t rows = 64, largest = 1;
  for (const TensorSpec& tensor : task.tensors) {
    if (std::ranges::find(tensor.shape, dimension) == tensor.shape.end()) continue;
    const auto bytes = static_cast<std::int64_t>(task.bytes_of(tensor, one_row));
    rows = std::lcm(rows, grain / std::gcd(grain, bytes));
    largest = std::max(largest, bytes);
  }
  const std::int64_t times = std::max<std::int64_t>(1, kLeastPeriod / (rows * largest));
  return rows * times * largest <= kMostPeriod ? rows * times : 0;
}

// Of all buffers, workspaces included, each period once.
std::uint64_t stored_bytes(const Plan& plan, const std::vector<Repetition>& repetitions) {
  std::uint64_t bytes = 0;
  for (const PlannedBuffer& buffer : plan.buffers) bytes += buffer.bytes;
  for (const Repetition& each : repetitions) bytes -= each.period * (each.repeats - 1);
  return bytes;
}

}  // namespace

std::optional<LargeShape> large_shape(const Task& task, const TaskReference& library,
                                      const Compiled& compiled, const Facts& facts, std::size_t least_period,
                                      double most_flops) {
  const std::string dimension = repeated_dimension(task);
  if (dimension.empty() || task.derived) return std::nullopt;
  std::optional<LargeShape> best;
  double least = most_flops;
  for (const Workload& like : every_claimed_shape(task, compiled.variant)) {
    const auto one = with(task, like, dimension, 1);
    if (!one) continue;
    std::int64_t row = 0;
    for (const TensorSpec& tensor : task.tensors)
      if (std::ranges::find(tensor.shape, dimension) != tensor.shape.end())
        row = std::max(row, elements_of(task, tensor, *one));
    const std::int64_t period =
        row < kLeastRow ? 0 : period_of(task, *one, dimension, static_cast<std::int64_t>(least_period));
    if (period == 0) continue;
    LargeShape shape{{}, {}, dimension, period, (kBeyond + period * row - 1) / (period * row), kTail};
    const auto all = with(task, like, dimension, shape.period * shape.repeats + shape.tail),
               distinct = with(task, like, dimension, shape.period + shape.tail);
    if (!all || !distinct || !claims(compiled.variant, task, *all) || !(task.flops(*all) < least) ||
        compiled.binary(macros(compiled.variant, task, *all)) == nullptr ||
        !is_legal(compiled.variant, task, *all, facts))
      continue;
    shape.workload = *all, shape.distinct = *distinct;
    shape.elements = largest_elements(task, *all);
    least = task.flops(*all);
    best = std::move(shape);
  }
  if (best && !rows_are_independent(task, library, best->workload, dimension)) return std::nullopt;
  return best;
}

std::vector<Repetition> repetitions_of(const Task& task, const LargeShape& shape) {
  std::vector<Repetition> all;
  const double rows = static_cast<double>(shape.period * shape.repeats + shape.tail);
  for (std::size_t i = 0; i < task.tensors.size(); ++i) {
    const TensorSpec& tensor = task.tensors[i];
    if (std::ranges::find(tensor.shape, shape.dimension) == tensor.shape.end()) continue;
    const auto row =
        static_cast<std::uint64_t>(static_cast<double>(task.bytes_of(tensor, shape.workload)) / rows);
    all.push_back(
        {i, static_cast<std::uint64_t>(shape.period) * row, static_cast<std::uint64_t>(shape.repeats)});
  }
  return all;
}

namespace {

LargeCheck run_large(const CascadeSite& site, const Compiled& compiled, const Facts& facts,
                     std::uint64_t seed) {
  LargeCheck result;
  const auto shape =
      large_shape(site.task, site.oracle, compiled, facts, site.device.least_period(), kMostFlops);
  if (!shape) return result;
  const std::vector<Repetition> repetitions = repetitions_of(site.task, *shape);
  const auto plan = make_plan(compiled.variant, site.task, shape->workload, facts);
  const Binary* const binary = compiled.binary(macros(compiled.variant, site.task, shape->workload));
  if (!plan || binary == nullptr || stored_bytes(*plan, repetitions) > kMostMemory) return result;
  bool opened = false;
  // Rows of the repeated part are written many times, by several threads at once, and a kernel may keep
  // intermediate values in its output: there a right kernel may leave wrong values. The last rows have memory
  // of their own.
  const std::int64_t rows = RowLayout(site.task, shape->distinct).rows();
  Checker checker(site.device, site.task, site.oracle,
                  {.run_deadline_s = kSecondsOfRun,
                   .oracle_flops = kComparedFlops,
                   .awaited = true,
                   .first_row = rows / (shape->period + shape->tail) * shape->period});
  checker.open_with([&]() -> tl::expected<std::unique_ptr<Session>, Evaluation> {
    auto session = site.device.open_repeating(*binary, *plan, repetitions, kSecondsOfRun);
    opened = session.has_value();
    site.progress({Stage::confirm, {}, "confirm " + shape->workload.name});
    if (!session)
      return tl::make_unexpected(rejection_of(Stage::confirm, session.error(), shape->workload.name));
    return std::move(*session);
  });
  Workload named = shape->distinct;
  named.name = fmt::format("{} ({} elements: 2^31 + {})", shape->workload.name, shape->elements,
                           shape->elements - (std::int64_t{1} << 31));
  std::optional<Evaluation> wrong;
  try {
    wrong = checker.check(Stage::confirm, compiled, named, seed);
  } catch (const std::bad_alloc&) {
    return result;
  }
  if (!wrong) {
    result.elements = shape->elements;
  } else if (opened && !wrong->late && !wrong->host_fault) {
    wrong->diagnostics +=
        "A tensor has more elements here than 32-bit numbers count: compute offsets, and shares of threads, "
        "in "
        "64 bits, for example static_cast<std::ptrdiff_t>(row) * columns, or limit `requires`.\n"
        "(Most rows lie in memory that repeats; only the last rows, which do not, were compared.)\n";
    result.wrong = std::move(wrong);
  }
  return result;
}

}  // namespace

std::optional<Workload> largest_workload(const CascadeSite& site, const Compiled& compiled) {
  if (site.device.least_period() == 0) return std::nullopt;
  const auto shape = large_shape(site.task, site.oracle, compiled, site.device.facts(),
                                 site.device.least_period(), kMostFlops);
  return shape ? std::optional(shape->workload) : std::nullopt;
}

LargeCheck check_large(const CascadeSite& site, const Compiled& compiled, std::uint64_t seed) {
  if (site.device.least_period() == 0) return {};
  const auto largest = compiled.variant.manifest.target->largest_machine;
  const Facts here = site.device.facts();
  Compiled first = compiled;
  const bool traps = !compiled.overflow_builds.empty();
  if (traps) first.binaries = compiled.overflow_builds;
  LargeCheck result = run_large(site, first, largest == nullptr ? here : largest(here), seed);
  if (result.wrong && traps)
    result.wrong->diagnostics +=
        "(In the build that was run an overflow of signed integers is an illegal instruction. Plans are "
        "those of a machine with many cores.)\n";
  if (result.wrong || result.elements > 0 || (!traps && largest == nullptr)) return result;
  // It was too slow, or no such shape is claimed. What only the ordinary build on this machine showed is not
  // promised.
  result = run_large(site, compiled, here, seed);
  if (traps) result.elements = 0;
  return result;
}

namespace {

constexpr double kSecondsOfProduct = 1.5;
// The most operations of a task whose inputs are derived for such a run: fractions of a second. A product of
// two dimensions beyond 2^32 leaves nothing to shorten.
constexpr double kMostDerivedFlops = 1e9;

std::string note_of_product(const std::string& product) {
  return fmt::format(
      "{} is more than 32 bits hold, and in the build that was run an overflow of signed integers is an "
      "illegal instruction: compute products of sizes in 64 bits, or limit `requires`.\n",
      product);
}

// A shape in which these dimensions multiply to as much as tensors of 2^31 - 1 bytes and the memory allow,
// the others small; rows of the repeated dimension lie in memory that repeats. nullopt: to no more than
// kLeast.
class ProductShape {
 public:
  ProductShape(const CascadeSite& site, const Compiled& compiled, const Facts& facts)
      : site_(site), task_(site.task), compiled_(compiled), facts_(facts) {}

  std::optional<LargeShape> of(const std::set<std::string>& names, const Workload& like) {
    constexpr double kLeast = 0x1p40;
    repeated_ = repeated_dimension(task_);
    if (!names.contains(repeated_)) repeated_.clear();
    Workload shape = like;
    for (const Dimension& d : task_.dimensions)
      if (!names.contains(d.name)) take(shape, d.name, 1.0);
    // The smallest first: equal ones multiply to most. Multiples of listed values are what tiles require.
    std::set<std::string> growing = names;
    while (!growing.empty()) {
      const std::string name = *std::ranges::min_element(
          growing, {}, [&](const std::string& each) { return shape.values.at(each); });
      const double unit = like.values.at(name), times = shape.values.at(name) / unit;
      if (!take(shape, name, unit * std::ceil(times * 1.3))) growing.erase(name);
    }
    double product = 1.0;
    for (const std::string& name : names) product *= shape.values.at(name);
    if (product < kLeast) return std::nullopt;
    if (repeated_.empty()) return LargeShape{shape, shape, {}, 0, 0, 0, 0};
    const auto rows = static_cast<std::int64_t>(shape.values.at(repeated_));
    const auto one = with(task_, shape, repeated_, 1);
    const std::int64_t period =
        one ? period_of(task_, *one, repeated_, static_cast<std::int64_t>(site_.device.least_period())) : 0;
    if (period == 0 || rows < period + kTail) return std::nullopt;
    LargeShape large{{}, {}, repeated_, period, (rows - kTail) / period, kTail, 0};
    const auto all = with(task_, shape, repeated_, large.period * large.repeats + large.tail),
               distinct = with(task_, shape, repeated_, large.period + large.tail);
    if (!all || !distinct || !usable(*all)) return std::nullopt;
    large.workload = *all, large.distinct = *distinct;
    return large;
  }

 private:
  bool take(Workload& shape, const std::string& name, double value) {
    Bindings given = given_values(task_, shape);
    given[name] = value;
    Expected<Workload> made = make_workload(task_, std::move(given), shape.dtype, true);
    if (!made || !usable(*made)) return false;
    shape = std::move(*made);
    return true;
  }
  bool usable(const Workload& w) const {
    std::size_t stored = 0;
    for (const TensorSpec& tensor : task_.tensors) {
      const std::size_t bytes = task_.bytes_of(tensor, w);
      if (bytes > static_cast<std::size_t>(kUncheckedBytes)) return false;
      if (repeated_.empty() || std::ranges::count(tensor.shape, repeated_) == 0) stored += bytes;
    }
    return stored <= kMostMemory / 2 &&
           std::ranges::all_of(
               task_.dimensions,
               [&](const Dimension& d) { return w.values.at(d.name) <= extents_.at(d.name); }) &&
           compiled_.binary(macros(compiled_.variant, task_, w)) != nullptr &&
           claims(compiled_.variant, task_, w) && is_legal(compiled_.variant, task_, w, facts_);
  }

  const CascadeSite& site_;
  const Task& task_;
  const Compiled& compiled_;
  const Facts& facts_;
  const std::map<std::string, double> extents_ = accepted_extents(task_);
  std::string repeated_;
};

// One run, of which only a crash counts: most are too slow to end, rows that repeat may be wrong, and inputs
// are 0 unless they are whole numbers. None where derived inputs are such numbers.
std::optional<Evaluation> crash_of(const CascadeSite& site, const Compiled& compiled, const Facts& facts,
                                   const LargeShape& shape) {
  const Task& task = site.task;
  if (std::ranges::any_of(task.tensors, [&](const TensorSpec& tensor) {
        return task.is_derived(tensor.name) && !is_floating(task.dtype(tensor, shape.workload));
      }))
    return std::nullopt;
  const auto plan = make_plan(compiled.variant, task, shape.workload, facts);
  const Binary* const binary = compiled.binary(macros(compiled.variant, task, shape.workload));
  const std::vector<Repetition> repetitions =
      shape.dimension.empty() ? std::vector<Repetition>() : repetitions_of(task, shape);
  if (!plan || binary == nullptr || stored_bytes(*plan, repetitions) > kMostMemory) return std::nullopt;
  site.progress({Stage::confirm, {}, "confirm " + shape.workload.name});
  auto session = site.device.open_repeating(*binary, *plan, repetitions, kSecondsOfProduct);
  if (!session) return std::nullopt;
  std::vector<std::vector<std::byte>> inputs, outputs = output_buffers(task, shape.distinct);
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    inputs.emplace_back(task.bytes_of(tensor, shape.distinct));
    if (const Fill fill = task.fill(tensor.fill, shape.distinct); is_whole(fill.kind))
      fill_tensor(fill, 1, task.shape(tensor, shape.distinct), task.dtype(tensor, shape.distinct),
                  inputs.back());
  }
  RunOptions options;
  options.deadline_s = kSecondsOfProduct;
  const auto ran = (*session)->run(inputs, outputs, options);
  if (ran || ran.error().kind != Fault::Kind::crashed) return std::nullopt;
  return rejection_of(Stage::confirm, ran.error(), shape.workload.name);
}

bool have_together(const Task& task, std::span<const std::string> names) {
  return std::ranges::any_of(task.tensors, [&](const TensorSpec& tensor) {
    return std::ranges::all_of(
        names, [&](const std::string& name) { return std::ranges::count(tensor.shape, name) > 0; });
  });
}

// Three dimensions that no tensor has together, such as those of a matrix product: the steps of all its
// tiles.
std::optional<Evaluation> check_triples(const CascadeSite& site, const Compiled& trapping, const Facts& facts,
                                        std::uint64_t seed) {
  constexpr std::size_t kMostTriples = 3;
  const Task& task = site.task;
  if (task.derived || site.device.least_period() == 0) return std::nullopt;
  const std::vector<Workload> claimed = every_claimed_shape(task, trapping.variant);
  if (claimed.empty()) return std::nullopt;
  std::vector<std::vector<std::string>> triples;
  for (std::size_t i = 0; i < task.dimensions.size(); ++i)
    for (std::size_t j = i + 1; j < task.dimensions.size(); ++j)
      for (std::size_t k = j + 1; k < task.dimensions.size(); ++k)
        if (std::vector<std::string> three{task.dimensions[i].name, task.dimensions[j].name,
                                           task.dimensions[k].name};
            !have_together(task, three))
          triples.push_back(std::move(three));
  RandomStream stream = stream_of(seed, "triples", 0);
  shuffle(triples, stream);
  ProductShape product(site, trapping, facts);
  std::size_t run = 0;
  for (const std::vector<std::string>& three : triples) {
    const Workload& like = claimed[below(stream, claimed.size())];
    const auto shape = product.of({three.begin(), three.end()}, like);
    if (!shape) continue;
    if (auto wrong = crash_of(site, trapping, facts, *shape)) {
      wrong->diagnostics += note_of_product(fmt::format("{}", fmt::join(three, " x ")));
      return wrong;
    }
    if (++run == kMostTriples) break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Evaluation> check_products(const CascadeSite& site, const Compiled& compiled,
                                         std::uint64_t seed) {
  if (compiled.overflow_builds.empty()) return std::nullopt;
  constexpr ShapeLimits kProducts{1e15, 0x1p28};
  // Beyond 2^32: masks leave half of the pairs.
  constexpr std::pair<double, double> kFactors[] = {{66001, 66003}, {0x1p21 - 1, 2063}, {2063, 0x1p21 - 1}};
  const Task& task = site.task;
  Compiled trapping = compiled;
  trapping.binaries = compiled.overflow_builds;
  const Facts facts = site.device.facts();
  const auto fits = [&](const Workload& w) {
    const auto plan = make_plan(compiled.variant, task, w, facts);
    return plan && stored_bytes(*plan, {}) <= kMostMemory;
  };
  const std::function<bool(const Workload&)> usable = [&](const Workload& w) {
    return trapping.binary(macros(compiled.variant, task, w)) != nullptr &&
           claims(compiled.variant, task, w) && is_legal(compiled.variant, task, w, facts) && fits(w);
  };
  const std::vector<Workload> around = every_claimed_shape(task, compiled.variant);
  Checker checker(site.device, task, site.oracle,
                  {.run_deadline_s = kSecondsOfProduct, .oracle_flops = kComparedFlops, .awaited = true});
  const auto wrong_on = [&](const Workload& shape) -> std::optional<Evaluation> {
    // Deriving takes about as long as the task, in which no deadline ends it.
    if (task.derived && task.flops(shape) > kMostDerivedFlops)
      return crash_of(site, trapping, facts, {shape, shape, {}, 0, 0, 0, 0});
    site.progress({Stage::confirm, {}, "confirm " + shape.name});
    auto wrong =
        checker.check(Stage::confirm, trapping, shape, derive_seed(seed, shape.name), {.drawn_shape = true});
    return wrong && (wrong->late || wrong->host_fault) ? std::nullopt : std::move(wrong);
  };
  for (std::size_t i = 0; i < task.dimensions.size(); ++i)
    for (std::size_t j = i + 1; j < task.dimensions.size(); ++j) {
      const std::string &a = task.dimensions[i].name, &b = task.dimensions[j].name;
      if (have_together(task, std::vector{a, b})) continue;
      std::vector<Focus> foci;
      for (const auto& [of_a, of_b] : kFactors)
        foci.push_back({a, of_a, Focus::Relation::none, {}, true, Focus::Others::least, b, of_b});
      for (const Workload& shape : draw_focused_shapes(task, compiled.variant, around, kProducts, foci, 1,
                                                       derive_seed(seed, a + b), usable)) {
        auto wrong = wrong_on(shape);
        if (!wrong) continue;
        wrong->diagnostics += note_of_product(fmt::format("{} x {}", a, b));
        return wrong;
      }
    }
  return check_triples(site, trapping, facts, derive_seed(seed, "triples"));
}

}  // namespace cultivar
